// Several devices: MULTI (a value cut on an axis into one part a device) is resolved, so that what follows
// sees the part that each device computes. A kernel whose memory is on several devices runs on each of them,
// with the variable _device_num bound to its number.
//
// Pass "devices":
//   %x = PARAM(4, DEVICE(["CPU", "CPU:1"]); 0):float32
//   %y = PARAM(4, DEVICE(["CPU", "CPU:1"]); 1):float32
//   SINK(AFTER(%y, STORE(MULTI(%y; 0), MULTI(%x; 0) * MULTI(%x; 0))))
//   ->
//   %0 = DEVICE(["CPU", "CPU:1"])
//   %1 = PARAM(4, %0; 1):float32
//   %2 = PARAM(4, %0; 0):float32
//   SINK(AFTER(%1, STORE(%1, %2 * %2)))
//
// Pass "devices":
//   %x = PARAM(4, DEVICE(["CPU", "CPU:1"]); 0):float32
//   %y = PARAM(1, DEVICE(["CPU", "CPU:1"]); 1):float32
//   SINK(AFTER(%y, STORE(%y, RESHAPE(REDUCE(MULTI(%x; 0); {op: ADD, axes: [0]}), 1))))
//   ->
//   %0 = DEVICE(["CPU", "CPU:1"])
//   %1 = PARAM(1, %0; 1):float32
//   %2 = CONTIGUOUS(REDUCE(PARAM(4, %0; 0):float32; {op: ADD, axes: [0]}))@{reason:
//     "another device needs it"}
//   SINK(AFTER(%1, STORE(%1, RESHAPE(COPY(MSELECT(%2; 0), %0) + COPY(MSELECT(%2; 1), %0), 1))))
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

UOp expand_devices(const UOp& sink);

}  // namespace quern
