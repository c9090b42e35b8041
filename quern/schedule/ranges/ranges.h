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
UOp to_ranges(const Plan& plan);

}  // namespace quern
