// Values that are put into places (ir/shape/places.h) become a kernel that goes over the source once, in
// order, on memory in which x lies: what is put into one place is combined in the order of the source, by one
// thread, so that the result has the same bits on every device.
//
// Pass "puts":
//   %d = DEVICE(["CPU"])
//   %y = PARAM(4, %d; 0):float32
//   %x = RESHAPE(PARAM(4, %d; 1):float32, 1, 4, 1)
//   %index = RESHAPE(PARAM(3, %d; 2):int32, 1, 3, 1)
//   %source = RESHAPE(PARAM(3, %d; 3):float32, 1, 3, 1)
//   %put = GETTUPLE(TUPLE(%x, %x, %index, %source)@{put: [1, 4, 1, 3, 0, 0, 0, 0, 0, 7]}; 0):float32
//   SINK(AFTER(%y, STORE(%y, RESHAPE(%put, 4))))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(4, %0; 0):float32
//   %2 = AFTER(%1, STORE(RESHAPE(%1, 1, 4, 1), RESHAPE(PARAM(4, %0; 1):float32, 1, 4, 1)))
//   %3 = PARAM(; 0):float32*[4]
//   %4 = 0 * 1 + 0
//   %5 = (%4 * 3 + r0[3]) * 1 + 0
//   %6 = CAST(INDEX(PARAM(; 1):int32*[3], %5):int32):index
//   %7 = where(%6 < 0, %6 + 4, %6)
//   %8 = (0 <= %7) & (%7 < 4)
//   %9 = (%4 * 4 + where(%8, %7, 0)) * 1 + 0
//   %10 = STORE(INDEX(%3, %9), where(%8, INDEX(PARAM(; 2):float32*[3], %5):float32, INDEX(%3,
//     %9):float32))
//   %11 = SINK(END(%10, r0); {name: "put_1_3_1_4"})@{steps_do_not_meet: true}
//   %12 = CALL(%11, %2, RESHAPE(PARAM(3, %0; 2):int32, 1, 3, 1), RESHAPE(PARAM(3, %0; 3):float32,
//     1, 3, 1))
//   SINK(AFTER(%2, %12))
//
// A store of all of a buffer that is used for nothing else has the kernel put there, too. Where it cannot
// (several devices, nothing that is on a device), and where each place gets one value at most, it is y.
#pragma once

#include "quern/ir/rules/rules.h"
#include "quern/schedule/schedule.h"

namespace quern {

extern const Rules puts_by_kernels;
UOp put_by_kernels(const UOp& sink, const SpecOf& spec_of);

}  // namespace quern
