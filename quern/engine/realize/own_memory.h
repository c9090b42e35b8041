// Kernels of the user's write into memory where it is, but what their results are is nobody else's business:
// a tensor that was an argument stays as it was. So such a kernel is given a copy of each argument that it
// writes and that somebody else sees too: a live tensor, another kernel that writes it, an assignment.
//
//   o = AFTER(a, CALL(kernel, a, b))  ->  o = AFTER(c, CALL(kernel, c, b)), c = AFTER(BUFFER, STORE(BUFFER,
//   a))
//
// Afterwards the states of each memory are a line, and there is an order in which they can be made.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// For all live tensors, which are `live`: then they are what became of them. The result is what became of the
// roots.
UOps with_own_memory_for_kernels(const UOps& roots, UOps& live);

}  // namespace quern
