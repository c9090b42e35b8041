// STAGEs: which of them are not needed after all, and the memory of those that are.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/rules/rules.h"

namespace quern {

extern const Rules stage_folding;  // constants, copies of memory, and what became cheap are not materialised

// STAGE to memory with a STORE into it: AFTER(BUFFER, END(STORE)) or, in LOCAL memory, with a BARRIER.
//
// Pass "memory":
//   %x = PARAM(4, DEVICE(["CPU"]); 0):float32
//   %y = PARAM(4, DEVICE(["CPU"]); 1):float32
//   %v = INDEX(%x, r1[4])
//   %s = STAGE(%v * %v, r1; {device: ["CPU"], removable: false, reason: "the user asked for it"})
//   SINK(AFTER(%y, END(STORE(INDEX(%y, r0[4]), INDEX(%s, r0) + INDEX(%s, 3 - r0)), r0)))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(4, %0; 1):float32
//   %2 = BUFFER(LUNIQUE(0), %0; 4):float32
//   %3 = INDEX(PARAM(4, %0; 0):float32, r1[4])
//   %4 = AFTER(%2, END(STORE(INDEX(%2, r1), %3 * %3)@{reason: "the user asked for it"}, r1))
//   %5 = END(STORE(INDEX(%1, r0[4]), INDEX(%4, r0) + INDEX(%4, r0 * -1 + 3)), r0)
//   SINK(AFTER(%1, %5))
extern const Rules memory_of_stages;
UOp stages_to_stores(const UOp& sink);

}  // namespace quern
