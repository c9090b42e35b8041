// What is put in order before loops are thought of: tuples, copies, stores, size 0, large
// reduces.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/rules/rules.h"

namespace quern {

// Pass "canonical":
//   %x = PARAM(12, DEVICE(["CPU"]); 0):float32
//   %y = PARAM(12, DEVICE(["CPU"]); 1):float32
//   %z = RESHAPE(RESHAPE(%x, 3, 4), 2, 6)
//   SINK(AFTER(%y, STORE(RESHAPE(%y, 2, 6), %z * %z)), AFTER(%x, STORE(%x, %x)))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(12, %0; 1):float32
//   %2 = PARAM(12, %0; 0):float32
//   %3 = RESHAPE(%2, 2, 6)
//   SINK(AFTER(%1, STORE(RESHAPE(%1, 2, 6), %3 * %3)), %2)
extern const Rules early_rewrites;

// The STOREs of these values read the memory that they write, elsewhere than they write it: the value is
// computed into memory of its own first.
UOp with_values_first(const UOp& sink, const UOps& stores);

// Older contents of this memory are needed after it is overwritten: what reads them reads a copy.
UOp with_old_contents_copied(const UOp& sink, const UOps& memory);

}  // namespace quern
