// Index arithmetic in the integers of a machine: int32 where bounds show that it is enough, else int64.
#pragma once

#include "quern/ir/rules/rules.h"

namespace quern {

// Before that: sums that are addresses are int64, where the device has these anyway. Then a constant in them
// is part of an instruction, and what is added in a loop is added to a pointer.
//
// Pass "wide addresses":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[32], r0[8] * 4 + 1))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], r0), %x), r0))
//   ->
//   %0 = CAST(r0[8]):int64
//   %1 = STORE(INDEX(PARAM(; 0):float32*[32], %0), LOAD(INDEX(PARAM(; 1):float32*[32], %0 * 4 + 1)))
//   SINK(END(%1, r0))
extern const Rules addresses_in_64_bits;

// Pass "indices":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[4294967296], r0[1073741824] * 4))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[1073741824], r0), %x), r0))
//   ->
//   %0 = LOAD(INDEX(PARAM(; 1):float32*[4294967296], CAST(r0[1073741824:int32]):int64 * 4))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[1073741824], r0), %0), r0))
extern const Rules index_to_integers;

}  // namespace quern
