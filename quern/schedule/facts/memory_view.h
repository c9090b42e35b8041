// Tensors that are memory as it lies: no kernel is needed to read them.
#pragma once

#include <optional>

#include "quern/ir/node/uop.h"
#include "quern/ir/shape/movement.h"

namespace quern {

struct MemoryView {
  UOp memory;  // what has memory (facts.h): a BUFFER, an AFTER, ...
  UOp offset;  // in elements
};

// Movement ops over memory that leave a stretch of it in order; none for others.
std::optional<MemoryView> contiguous_view(const UOp& x);

// All of it, from the start to the end.
bool is_whole_memory(const UOp& x);

// ---- as kernels see it

bool is_memory(const UOp& u);        // global memory: a BUFFER, or what stands for one
UOps states_under(const UOp& used);  // BUFFERs and AFTERs that a SLICE, MSELECT or MSTACK is made from

}  // namespace quern
