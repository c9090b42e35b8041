// Runs what tensors need to be in memory.
#pragma once

#include <cstdint>
#include <string>

#include "quern/ir/node/uop.h"

namespace quern {

// What a schedule does, estimated from its kernels: nothing is compiled or run.
struct Estimate {
  int64_t kernels = 0;
  int64_t operations = 0;  // on values, not on indices
  int64_t bytes = 0;       // of the buffers of each kernel and copy, once each
  int64_t memory = 0;      // bytes of the results, and of what lies between kernels at the same time
};

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
Estimate estimate(const UOps& roots);

}  // namespace quern
