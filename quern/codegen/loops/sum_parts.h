// Long sums of floats as sums of sums.
#pragma once

#include "quern/ir/rules/rules.h"

namespace quern {

// Each addition rounds by as much as the sum so far is long: with n numbers one after the other errors grow
// with n, with parts of as many numbers as there are parts with the root of n.
// Other reduces in the same loops, a maximum beside a sum, are parted with them, so that they stay together.
//
// Pass "sums in parts":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[4096], r0[4096, REDUCE]))
//   SINK(STORE(INDEX(PARAM(; 0):float32*[1], 0), REDUCE(%x, r0; {op: ADD})))
//   ->
//   %0 = REDUCE(LOAD(INDEX(PARAM(; 1):float32*[4096], r0[64, REDUCE] * 64 + r1[64, REDUCE])), r1;
//     {op: ADD})
//   SINK(STORE(INDEX(PARAM(; 0):float32*[1], 0), REDUCE(%0, r0; {op: ADD})))
extern const Rules parted_sums;
UOp sums_in_parts(const UOp& program);

}  // namespace quern
