// Kernels with more buffers than the device allows are cut: a part of the value is materialised first.
//
// Pass "buffer limit":
//   %d = DEVICE(["CPU"])
//   %y = PARAM(4, %d; 0):float32
//   %a = INDEX(PARAM(4, %d; 1):float32, r0[4]) * INDEX(PARAM(4, %d; 2):float32, r0)
//   %b = INDEX(PARAM(4, %d; 3):float32, r0) * INDEX(PARAM(4, %d; 4):float32, r0)
//   %c = INDEX(PARAM(4, %d; 5):float32, r0) * INDEX(PARAM(4, %d; 6):float32, r0)
//   SINK(AFTER(%y, END(STORE(INDEX(%y, r0), %a + %b + %c), r0)))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(4, %0; 0):float32
//   r1[4]
//   %2 = INDEX(PARAM(4, %0; 1):float32, r1) * INDEX(PARAM(4, %0; 2):float32, r1)
//   %3 = %2 + INDEX(PARAM(4, %0; 3):float32, r1) * INDEX(PARAM(4, %0; 4):float32, r1)
//   %4 = STAGE(%3, r1; {device: ["CPU"], removable: false, reason: "buffer limit: a kernel has 6 at most"})
//   r2[4]
//   %5 = INDEX(PARAM(4, %0; 5):float32, r2) * INDEX(PARAM(4, %0; 6):float32, r2)
//   %6 = STAGE(%5, r2; {device: ["CPU"], removable: false, reason: "buffer limit: a kernel has 6 at most"})
//   %7 = AFTER(%1, END(STORE(INDEX(%1, r0[4]), INDEX(%4, r0) + INDEX(%6, r0)), r0))
//   SINK(%7)
#pragma once

#include "quern/schedule/schedule.h"

namespace quern {

int64_t buffer_limit(const Texts& device, const SpecOf& spec_of);  // 0: none

// How many a kernel of several outputs may have: it should stay small, whatever the device allows.
int64_t most_buffers(const Texts& device, const SpecOf& spec_of);

UOp limit_buffers(const UOp& sink, const SpecOf& spec_of);

}  // namespace quern
