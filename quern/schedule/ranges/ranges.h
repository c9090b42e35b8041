// Tensor-level graph to loops: movement ops become index arithmetic, and what is materialised becomes a
// STAGE.
#pragma once

#include "quern/schedule/fuse/plan.h"

namespace quern {

// The STOREs whose value reads the memory that they write, at another place. A graph that has any has no
// ranges.
UOps hazards_of(const Plan& plan);

// What was planned, carried out. The result is a SINK of memory: AFTERs whose effects are
// END(STORE(INDEX(memory, place), value), ranges). A value that is materialised is STAGE(value, ranges), read
// through INDEX.
//
// Pass "ranges":
//   %x = PARAM(12, DEVICE(["CPU"]); 0):float32
//   %y = PARAM(4, DEVICE(["CPU"]); 1):float32
//   %s = REDUCE(PERMUTE(RESHAPE(%x, 3, 4); [1, 0]); {op: ADD, axes: [1]})
//   SINK(AFTER(%y, STORE(%y, RESHAPE(%s, 4))))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(4, %0; 1):float32
//   %2 = REDUCE(INDEX(PARAM(12, %0; 0):float32, r0[4] + r1[3, REDUCE] * 4), r1; {op: ADD})
//   SINK(AFTER(%1, END(STORE(INDEX(%1, r0), %2), r0)))
UOp to_ranges(const Plan& plan);

}  // namespace quern
