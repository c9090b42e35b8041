// What costs much and is needed in several loops over the same steps is computed once.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern {

// A row of values with a function in them, in two loops of as many steps, goes through near memory:
//   %s = REDUCE(EXP2(LOAD(INDEX(p, r0 * 64 + r1[64])), r1; ADD)
//   END(STORE(INDEX(q, r0 * 64 + r2[64]), EXP2(LOAD(INDEX(p, r0 * 64 + r2))) / %s), r0, r2)
//   ->  %kept = AFTER(local, END(STORE(INDEX(local, r1), EXP2(LOAD(INDEX(p, r0 * 64 + r1)))), r1))
//       END(STORE(INDEX(q, r0 * 64 + r2), LOAD(INDEX(%kept, r2)) / %s), r0, r2)
// if the row takes no more than half of the first cache.
UOp rows_to_near_memory(const UOp& program, const DeviceSpec& spec);

// Where several steps of a loop around a row are done at once, each has memory of its own for it:
//   STORE(INDEX(local[64], r3), x(r0 * 2 + r4[2, UPCAST], r3))  ->  STORE(INDEX(local[128], r4 * 64 + r3),
//   ...)
UOp rows_for_each_copy(const UOp& program);

}  // namespace quern
