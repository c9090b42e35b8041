// REDUCEs to registers that are accumulated into in a loop.
//
//   REDUCE(x, r1; ADD)   ->   %acc = DEFINE_REG:float32*[1]@REG
//                             %start = STORE(INDEX(AFTER(%acc, r0), 0), 0.0)       r0: what is open around it
//                             %in = INDEX(AFTER(%acc, %start, r1), 0)
//                             LOAD(INDEX(AFTER(%acc, END(STORE(%in, LOAD(%in) + x), r1)), 0))
// A value with more lanes than the result is several values, one after the other.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// Sums of products: each product is rounded and then each sum, or both at once (MULACC).
enum class Rounding : uint8_t { each, fused };

UOp reduces_to_accumulators(const UOp& program, Rounding rounding = Rounding::each);

}  // namespace quern
