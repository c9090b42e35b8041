// Memory of a kernel's own that is near: copies of what is read often, and accumulators that do not fit into
// registers.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// Done without a loop: lanes and copies.
bool is_at_once(const UOp& range);

// How far apart neighbouring steps of the range are at an address, the first two if they differ; far, if that
// is not known.
wide distance(const UOp& address, const UOp& range);

// A place for each step of the loops `tile`: loops are in the order in which they are nested, and what is
// done at once is innermost, along the memory at `address` as far as it can be.
struct NearMemory {
  UOp memory;    // a DEFINE_LOCAL
  UOp position;  // in it, of a step
  NearMemory(const UOp& program, DType dtype, const UOps& tile, const UOp& address);
};

// Loops like those given, with numbers that no range of the program has: one after the other, inside of all
// others.
UOps other_loops(const UOp& program, const UOps& ranges);

}  // namespace quern
