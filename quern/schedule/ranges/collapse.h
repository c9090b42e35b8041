// Reduces that need no loop: a sum over what does not change is a product, a sum that picks one element is a
// read of it, a sum that counts is arithmetic.
//
// Pass "simplify loops":
//   %x = PARAM(9, DEVICE(["CPU"]); 0):float32
//   %y = PARAM(4, DEVICE(["CPU"]); 1):float32
//   %s = REDUCE(where(r1[9, REDUCE] == r0[4] * 2, INDEX(%x, r1), 0.0), r1; {op: ADD})
//   SINK(AFTER(%y, END(STORE(INDEX(%y, r0), %s), r0)))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(4, %0; 1):float32
//   %2 = END(STORE(INDEX(%1, r0[4]), INDEX(PARAM(9, %0; 0):float32, r0 * 2) + 0.0), r0)
//   SINK(AFTER(%1, %2))
#pragma once

#include "quern/ir/rules/rules.h"

namespace quern {

extern const Rules reduce_collapse;

}  // namespace quern
