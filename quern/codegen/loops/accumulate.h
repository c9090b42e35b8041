// REDUCEs to registers that are accumulated into in a loop.
// A REDUCE of a vector to fewer lanes combines the vector's parts one after the other.
//
// Pass "accumulators":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[32], r0[4] * 8 + r1[8, REDUCE]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r0), REDUCE(%x, r1; {op: ADD})), r0))
//   ->
//   %0 = DEFINE_REG(0):float32*[1]@REG
//   %1 = INDEX(AFTER(%0, STORE(INDEX(AFTER(%0, r0[4]), 0), 0.0:float32), r1[8, REDUCE]), 0)
//   %2 = STORE(%1, LOAD(%1) + LOAD(INDEX(PARAM(; 1):float32*[32], r0 * 8 + r1)))
//   %3 = STORE(INDEX(PARAM(; 0):float32*[4], r0), LOAD(INDEX(AFTER(%0, END(%2, r1)), 0)))
//   SINK(END(%3, r0))
#pragma once

#include "quern/ir/rules/rules.h"

namespace quern {

// Sums of products: each product is rounded and then each sum, or both at once (MULACC).
enum class Rounding : uint8_t { each, fused };

extern const Rules accumulators;
UOp reduces_to_accumulators(const UOp& program, Rounding rounding = Rounding::each);

}  // namespace quern
