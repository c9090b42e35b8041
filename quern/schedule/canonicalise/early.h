// What is put in order before loops are thought of: tuples, copies, stores, size 0, large
// reduces.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/rules/rules.h"

namespace quern {

UOp early_rewrites(const UOp& sink);

// The STOREs of these values read the memory that they write, elsewhere than they write it: the value is
// computed into memory of its own first.
UOp with_values_first(const UOp& sink, const UOps& stores);

// Older contents of this memory are needed after it is overwritten: what reads them reads a copy.
UOp with_old_contents_copied(const UOp& sink, const UOps& memory);

}  // namespace quern
