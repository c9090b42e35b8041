// Several devices: MULTI (a value cut on an axis into one part a device) is resolved, so that what follows
// sees the part that each device computes. A kernel whose memory is on several devices runs on each of them,
// with the variable _device_num bound to its number.
//
//   MULTI(x, 0) + MULTI(y, 0)            ->  x + y, on each device
//   REDUCE(MULTI(x, 0); {axes: [0]})     ->  ALLREDUCE(REDUCE(x; {axes: [0]}))
//   COPY(MULTI(x, 0), DEVICE("INTERP"))  ->  memory with a STORE for each part: COPY(MSELECT(x, i))
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

UOp expand_devices(const UOp& sink);

}  // namespace quern
