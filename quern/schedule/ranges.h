// Tensor-level graph to loops: movement ops become index arithmetic, and what is kept becomes a STAGE.
#pragma once

#include "quern/schedule/schedule.h"

namespace quern {

// The result is a SINK of memory: AFTERs whose effects are END(STORE(INDEX(memory, place), value), ranges). A
// value that is kept is STAGE(value, ranges), read through INDEX.
//
// A STORE is a hazard when its value reads the memory that it writes, at another place: then there is no
// result.
struct Ranges {
  UOp sink;
  UOps hazards;
};
Ranges to_ranges(const UOp& sink, const SpecOf& spec_of);

}  // namespace quern
