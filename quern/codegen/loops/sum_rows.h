// Reduces across rows of memory go row by row, with sums in near memory.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern {

// A product of a vector and a matrix, or a sum of columns, reads rows that are far apart. With a sum in
// registers it would go down a few columns at a time, from one page of memory to the next. It is done in
// parts that take no more than half of the first cache, and as many of them as there are threads.
//
// Pass "row sums":
//   %s = REDUCE(LOAD(INDEX(PARAM(; 1):float32*[2097152], r1[512, REDUCE] * 4096 + r0[4096])), r1; {op: ADD})
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[4096], r0), %s), r0))
//   ->
//   %0 = r0[4] * 1024
//   %1 = DEFINE_LOCAL(0):float32*[1024]@LOCAL
//   %2 = AFTER(%1, END(STORE(INDEX(AFTER(%1, r0), r2[1024]), 0.0:float32), r2), r3[64])
//   %3 = INDEX(%2, r4[1024])
//   %4 = LOAD(INDEX(PARAM(; 1):float32*[2097152], %0 + r3 * 32768 + r4 + r5[8, REDUCE] * 4096))
//   %5 = AFTER(%1, END(STORE(%3, REDUCE(%4, r5; {op: ADD}) + LOAD(%3)), r3, r4))
//   %6 = STORE(INDEX(PARAM(; 0):float32*[4096], %0 + r6[1024]), LOAD(INDEX(%5, r6)))
//   SINK(END(%6, r0, r6))
UOp sum_rows(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
