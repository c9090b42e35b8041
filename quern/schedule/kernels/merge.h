// Kernels that read the same memory in the same loops become one with several outputs.
#pragma once

#include "quern/schedule/schedule.h"

namespace quern {

// Effects of one shape are joined: all values are computed before any is stored.
//
// Pass "merge outputs":
//   %d = DEVICE(["CPU"])
//   %x = PARAM(4, %d; 0):float32
//   %y = PARAM(4, %d; 1):float32
//   %z = PARAM(4, %d; 2):float32
//   %a = AFTER(%y, END(STORE(INDEX(%y, r0[4]), INDEX(%x, r0) * INDEX(%x, r0)), r0))
//   SINK(%a, AFTER(%z, END(STORE(INDEX(%z, r1[4]), INDEX(%x, r1) + INDEX(%x, r1)), r1)))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(4, %0; 1):float32
//   %2 = INDEX(PARAM(4, %0; 0):float32, r0[4])
//   %3 = PARAM(4, %0; 2):float32
//   %4 = END(GROUP(STORE(INDEX(%1, r0), %2 * %2), STORE(INDEX(%3, r0), %2 + %2)), r0)
//   SINK(AFTER(%1, %4), AFTER(%3, %4))
UOp merge_outputs(const UOp& sink, const SpecOf& spec_of);

}  // namespace quern
