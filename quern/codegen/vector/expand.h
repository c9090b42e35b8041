// UPCAST and UNROLL ranges done at once: some as lanes of vectors, the others as copies of what depends on
// them.
//
//   lanes:   END(STORE(INDEX(p, r0 * 4 + r1[4, UPCAST]), LOAD(INDEX(q, r0 * 4 + r1)) * s), r0, r1)
//            ->  END(STORE(CAST(INDEX(p, r0 * 4)), LOAD(CAST(INDEX(q, r0 * 4))) * VECTORIZE(s, s, s, s)), r0)
//   copies:  END(STORE(INDEX(p, r1[2, UPCAST] * 9 + r0), x(r1)), r0, r1)
//            ->  END(GROUP(STORE(INDEX(p, r0), x(0)), STORE(INDEX(p, r0 + 9), x(1))), r0)
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// Lanes: UPCAST and UNROLL ranges of 2, 4, 8 ... steps, if most accesses to memory go to neighbours along
// them. A REDUCE over lanes has an accumulator for each lane, and these are combined behind its loop.
UOp ranges_to_lanes(const UOp& program);

// All others. A REDUCE over a copied range combines the copies in its loop, one after the other, or has an
// accumulator for each if there are few.
UOp ranges_to_copies(const UOp& program);

// Both, and what they leave simplified.
UOp expand(const UOp& program);

}  // namespace quern
