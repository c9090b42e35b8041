// What costs much and is needed in several loops over the same steps is computed once.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern {

// Where two loops of as many steps compute the same values, and a function (EXP2, LOG2, ...) is among what
// they are computed of, the first loop stores them in near memory and the second one loads them, if they take
// no more than half of L1.
//
// Pass "near rows":
//   %s = REDUCE(EXP2(LOAD(INDEX(PARAM(; 1):float32*[256], r0[4] * 64 + r1[64, REDUCE]))), r1; {op: ADD})
//   %e = EXP2(LOAD(INDEX(PARAM(; 1):float32*[256], r0 * 64 + r2[64])))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[256], r0 * 64 + r2), %e / %s), r0, r2))
//   ->
//   %0 = r0[4] * 64
//   %1 = DEFINE_LOCAL(0):float32*[64]@LOCAL
//   %2 = EXP2(LOAD(INDEX(PARAM(; 1):float32*[256], %0 + r1[64, REDUCE])))
//   %3 = LOAD(INDEX(AFTER(%1, END(STORE(INDEX(%1, r1), %2), r1)), r2[64]))
//   %4 = STORE(INDEX(PARAM(; 0):float32*[256], %0 + r2), %3 / REDUCE(%2, r1; {op: ADD}))
//   SINK(END(%4, r0, r2))
UOp rows_to_near_memory(const UOp& program, const DeviceSpec& spec);

// Where several steps of a loop around a row are done at once, each has memory of its own for it:
//   STORE(INDEX(local[64], r3), x(r0 * 2 + r4[2, UPCAST], r3))  ->  STORE(INDEX(local[128], r4 * 64 + r3),
//   ...)
UOp rows_for_each_copy(const UOp& program);

}  // namespace quern
