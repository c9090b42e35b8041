// How memory is reached: kernels may say `INDEX(memory, i, j)` for an element; programs have LOAD and STORE
// through addresses with one index.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// INDEX(RESHAPE(p, 4, 8), i, j):float32  ->  LOAD(INDEX(p, i * 8 + j))
UOp to_addresses(const UOp& kernel);

// where(g, LOAD(INDEX(p, where(g & h, i, invalid))), 0)  ->  LOAD(INDEX(p, where(g & h, i, invalid))): that
// is 0 where its gate is closed.
UOp without_double_gates(const UOp& program);

// LOAD(INDEX(p, where(g, i, invalid)))  ->  LOAD(INDEX(p, where(g, i, invalid)), 0); a STORE to where nothing
// ever is becomes nothing. Only the index of an INDEX has a gate afterwards: values that are invalid
// somewhere may be anything there.
UOp gates_to_alternatives(const UOp& program);

}  // namespace quern
