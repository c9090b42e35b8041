// Kernels written by hand never leave their memory.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// The kernel with a gate on every index of which it cannot be proven that it stays within its memory: where
// it does not, 0 is read and nothing is written.
//   INDEX(p[8], CAST(%x))  ->  INDEX(p[8], where(0 <= CAST(%x) & CAST(%x) < 8, CAST(%x), invalid))
// An IndexError where it certainly does not; an Error for a kernel that is none, or that uses other memory
// than `params` and what it defines itself.
UOp within_bounds(const UOp& kernel, const UOps& params);

}  // namespace quern
