// UPCAST and UNROLL ranges done at once: some as lanes of vectors, the others as copies of what depends on
// them.
//
// Pass "expand":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[32], r0[8] * 4 + r1[4, UPCAST]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], r0 * 4 + r1), %x * 2.0), r0, r1))
//   ->
//   %0 = r0[8] * 4
//   %1 = LOAD(CAST(INDEX(PARAM(; 1):float32*[32], %0)):float32x4*[32]) * 2.0
//   SINK(END(STORE(CAST(INDEX(PARAM(; 0):float32*[32], %0)):float32x4*[32], %1), r0))
//
// Pass "expand":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[16], r0[8] + r1[2, UPCAST] * 8))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[16], r1 * 8 + r0), %x * 2.0), r0, r1))
//   ->
//   %0 = PARAM(; 0):float32*[16]
//   %1 = PARAM(; 1):float32*[16]
//   %2 = STORE(INDEX(%0, r0[8]), LOAD(INDEX(%1, r0)) * 2.0)
//   %3 = r0 + 8
//   SINK(END(GROUP(%2, STORE(INDEX(%0, %3), LOAD(INDEX(%1, %3)) * 2.0)), r0))
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// Lanes: UPCAST and UNROLL ranges of 2, 4, 8 ... steps, if most accesses to memory go to neighbours along
// them. A REDUCE over lanes has an accumulator for each lane, and these are combined behind its loop.
UOp ranges_to_lanes(const UOp& program);

// All others. A REDUCE over a copied range combines the copies in its loop, one after the other, or has an
// accumulator for each if there are few.
UOp ranges_to_copies(const UOp& program);

// Both, and what they leave simplified.
UOp expand(const UOp& program);

}  // namespace quern
