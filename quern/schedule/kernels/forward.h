// Values that are stored by one kernel and read by another in the same loops, each at the place where it is
// stored: the second computes them too, waits for nothing, and can be one kernel with the first (merge.h).
//
// Pass "forward values":
//   %d = DEVICE(["CPU"])
//   %x = PARAM(4, %d; 0):float32
//   %y = PARAM(4, %d; 1):float32
//   %z = PARAM(4, %d; 2):float32
//   %a = AFTER(%y, END(STORE(INDEX(%y, r0[4]), INDEX(%x, r0) * INDEX(%x, r0)), r0))
//   SINK(%a, AFTER(%z, END(STORE(INDEX(%z, r1[4]), INDEX(%a, r1) + INDEX(%x, r1)), r1)))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(4, %0; 1):float32
//   %2 = PARAM(4, %0; 0):float32
//   %3 = INDEX(%2, r0[4])
//   %4 = PARAM(4, %0; 2):float32
//   %5 = INDEX(%2, r1[4])
//   %6 = AFTER(%4, END(STORE(INDEX(%4, r1), %5 * %5 + %5), r1))
//   SINK(AFTER(%1, END(STORE(INDEX(%1, r0), %3 * %3), r0)), %6)
#pragma once

#include "quern/schedule/schedule.h"

namespace quern {

UOp forward_values(const UOp& sink, const SpecOf& spec_of);

}  // namespace quern
