// Runs what tensors need to be in memory.
#pragma once

#include <string>

#include "quern/ir/uop.h"

namespace quern {

// Brings the values of these nodes into memory and has all live tensors that hold them see it. If something
// fails, tensors are as they were.
void realize(const UOps& roots);

// The same for one node, which gets contiguous memory of its own in any case; returns the memory, seen as its
// shape.
UOp realize_copy(const UOp& root);

// Memory with the values of a node, which stays what it is, as all tensors do.
UOp read_beside(const UOp& value);

// The steps that realize() would take, as text.
std::string schedule_text(const UOps& roots);

}  // namespace quern
