// STAGEs: which of them are not needed after all, and the memory of those that are.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/rules/rules.h"

namespace quern {

extern const Rules stage_folding;  // constants, copies of memory, and what became cheap are not materialised

// STAGE to memory with a STORE into it: AFTER(BUFFER, END(STORE)) or, in LOCAL memory, with a BARRIER.
UOp stages_to_stores(const UOp& sink);

}  // namespace quern
