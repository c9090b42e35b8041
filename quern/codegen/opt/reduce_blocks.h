// A long reduce in blocks: what a block reads is near while all outputs use it.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// The loop over `blocks` is one of a REDUCE, and has a number below those of loops over outputs: it becomes
// the outer one. What was reduced for an output so far is in memory between the blocks, and what uses the
// result stands in loops of its own behind them.
//   END(STORE(INDEX(p, i), f(REDUCE(x, b, k))), i)
//   ->  done = END(STORE(INDEX(acc, i), (b == 0 ? neutral : LOAD(INDEX(acc, i))) + REDUCE(x, k)), i, b)
//       END(STORE(INDEX(p, j), f(LOAD(INDEX(AFTER(acc, done), j)))), j)
UOp reduce_in_blocks(const UOp& program, const UOp& blocks);

// Loops over outputs that the blocks are outside of; `reduce` has the loop over blocks.
UOps loops_in_blocks(const UOp& reduce, const UOp& blocks);

}  // namespace quern
