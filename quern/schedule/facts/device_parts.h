// What one of several devices has, and memory that devices exchange values in.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

bool is_everywhere(const UOp& x);  // made from constants alone: it is computed wherever it is used

// The value that device i of several has; from memory as it lies.
UOp select_device(const UOp& x, int64_t device);

// The value itself where it lies in memory as one stretch, else a copy that does.
UOp for_other_devices(const UOp& x);

// A store into a part of memory, as one into all of it: with what is there already around the value.
UOp stored_over(const UOp& u);

// Memory that the schedule needs for itself, and an identity for it that no other in the graph has.
UOp own_memory(DType dtype, int64_t elements, const UOp& devices, int64_t identity);
int64_t next_identity(const UOp& sink);

}  // namespace quern
