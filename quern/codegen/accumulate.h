// REDUCEs to registers that are accumulated into in a loop.
//
//   REDUCE(x, r1; ADD)   ->   %acc = DEFINE_REG:float32*[1]@REG
//                             %start = STORE(INDEX(AFTER(%acc, r0), 0), 0.0)       r0: what is open around it
//                             %in = INDEX(AFTER(%acc, %start, r1), 0)
//                             LOAD(INDEX(AFTER(%acc, END(STORE(%in, LOAD(%in) + x), r1)), 0))
#pragma once

#include "quern/ir/uop.h"

namespace quern {

UOp reduces_to_accumulators(const UOp& program);

}  // namespace quern
