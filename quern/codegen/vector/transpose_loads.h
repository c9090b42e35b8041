// Vectors that are read element by element, across memory, as rows that are transposed in registers.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// VECTORIZE(LOAD(p, i), LOAD(p, k), ...) and, for each step up to the number of lanes,
// VECTORIZE(LOAD(p, i + 1), LOAD(p, k + 1), ...)
//   ->  the columns of the square whose rows are LOAD(p, i):float32x4, LOAD(p, k):float32x4, ...
UOp transpose_loads(const UOp& program);

}  // namespace quern
