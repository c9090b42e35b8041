// Several devices: MULTI (a value cut on an axis into one part a device) is resolved, so that what follows
// sees the part that each device computes. A kernel whose memory is on several devices runs on each of them,
// with the variable _device_num bound to its number.
//
//   MULTI(x, 0) + MULTI(y, 0)            ->  x + y, on each device
//   REDUCE(MULTI(x, 0); {axes: [0]})     ->  ALLREDUCE(REDUCE(x; {axes: [0]}))
//   COPY(MULTI(x, 0), DEVICE("INTERP"))  ->  memory with a STORE for each part: COPY(MSELECT(x, i))
#pragma once

#include "quern/ir/uop.h"

namespace quern {

UOp expand_devices(const UOp& sink);

// The value that device i of several has; from memory as it lies.
UOp select_device(const UOp& x, int64_t device);

// The value itself where it lies in memory as one stretch, else a copy that does.
UOp for_other_devices(const UOp& x);

// The identity for memory of the schedule's own that no other in the graph has.
int64_t next_identity(const UOp& sink);

}  // namespace quern
