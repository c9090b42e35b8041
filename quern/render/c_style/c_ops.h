// One op on scalars as an expression of a C-like language.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quern/render/c_style/c_style.h"

namespace quern {

std::string c_constant(const CStyle& style, DType dtype, Const value);

// Functions that expressions call, by name: each is in the source once.
using CHelpers = std::map<std::string, std::string>;

// `u` says op and dtypes; x are its operands, of one lane.
std::string c_op(const CStyle& style, const UOp& u, const std::vector<std::string>& x, CHelpers& helpers);

// The same on whole vectors; "" where that is done lane by lane.
std::string c_vector_op(const CStyle& style, const UOp& u, const std::vector<std::string>& x);

}  // namespace quern
