// Reduces across rows of memory go row by row, with sums in near memory.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern {

// A product of a vector and a matrix, or a sum of columns, reads rows that are far apart. With a sum in
// registers it would go down a few columns at a time, from one page of memory to the next:
//   END(STORE(INDEX(q, r0[4096]), REDUCE(LOAD(INDEX(p, r1[512] * 4096 + r0)), r1; ADD)), r0)
//   ->  %0 = END(STORE(INDEX(local, r2[4096]), 0), r2)
//       %8 = REDUCE(LOAD(INDEX(p, (r3[64] * 8 + r5[8]) * 4096 + r4[4096])), r5; ADD)
//       %1 = END(STORE(INDEX(local, r4), LOAD(INDEX(AFTER(local, %0, r3), r4)) + %8), r3, r4)
//       END(STORE(INDEX(q, r6[4096]), LOAD(INDEX(AFTER(local, %1), r6))), r6)
// in parts that take no more than half of the first cache, and as many of them as there are threads.
UOp sum_rows(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
