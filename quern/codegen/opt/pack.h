// What several loops read is copied into near memory first, in the order in which they read it.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// `load` is read in all steps of the ranges `tile`, and again and again: it is read from a copy that is made
// just outside of these.
//   LOAD(INDEX(p, r0 * 512 + r1[4] * 128 + r2[8]))  with the tile r1, r2
//   ->  LOAD(INDEX(AFTER(copy, END(STORE(INDEX(copy, r3 * 8 + r4), LOAD(INDEX(p, r0 * 512 + r3 * 128 + r4))),
//   r3, r4)),
//                  r1 * 8 + r2))
// In the copy what is done at once is innermost; the copying goes through memory in its order.
UOp pack(const UOp& program, const UOp& load, const UOps& tile);

}  // namespace quern
