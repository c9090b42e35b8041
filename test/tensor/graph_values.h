// Evaluates small tensor-level graphs, element by element, by what eval.h says: numbers to compare gradients
// with.
#pragma once

#include <unordered_map>
#include <vector>

#include "quern/ir/uop.h"

namespace quern::testing {

using Values = std::vector<Const>;
using Memory = std::unordered_map<UOp, Values>;  // contents of BUFFERs and PARAMs

Values values_of(const UOp& root, const Memory& memory);
std::vector<double> floats_of(const UOp& root, const Memory& memory);
Values float_values(DType dtype, const std::vector<double>& numbers);

}  // namespace quern::testing
