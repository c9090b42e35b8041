// Loops with more steps than there is to do, so that they can be split evenly.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// `range` becomes `padded`, which has more steps. Nothing is stored in these, a reduce takes in what changes
// nothing, and nothing outside of memory is read:
//   END(STORE(INDEX(p, r0[7]), LOAD(INDEX(q, r0)) + LOAD(INDEX(s, r0 * 9))), r0)
//   ->  END(STORE(INDEX(p, where(r0[8] < 7, r0, invalid)), LOAD(INDEX(q, where(r0 < 7, r0, invalid)))
//                 + LOAD(INDEX(s, MIN(r0, 6) * 9))), r0)
// Neighbours have a gate, which lanes can have each its own; elsewhere the last step is read again.
UOp pad(const UOp& program, const UOp& range, const UOp& padded);

}  // namespace quern
