// Graphs as questions to z3: for rules that are functions, whose instances can be proved one by one.
#pragma once

#include <cstdint>
#include <string>

#include "quern/ir/node/uop.h"

namespace quern {

// REDUCEs over a constant number of steps, written out step by step.
UOp written_out(const UOp& u);

enum class Answer : uint8_t { equal, different, unknown };

bool can_compare();  // built with z3

// Whether two graphs without REDUCEs have the same value for all values of what is free in them: variables
// within their bounds, ranges within their sizes, and memory, which may hold anything. Index arithmetic is on
// mathematical integers, other integers wrap around, floats are real numbers: rounding is not looked at. What
// is invalid may be anything. `model`, if given, receives where they differ.
Answer compare_by_solver(const UOp& a, const UOp& b, std::string* model = nullptr);

}  // namespace quern
