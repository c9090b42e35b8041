// Vectors that are read element by element, across memory, as rows that are transposed in registers.
#pragma once

#include "quern/ir/rules/rules.h"

namespace quern {

// Vectors of LOAD(p, i), LOAD(p, k), ... and, for each step up to the number of lanes, of LOAD(p, i + 1),
// LOAD(p, k + 1), ... are the columns of a square whose rows are vectors from p + i, p + k, ...
//
// Pass "transpose loads":
//   %p = PARAM(; 1):float32*[4]
//   %a = VECTORIZE(LOAD(INDEX(%p, 0)), LOAD(INDEX(%p, 2)))
//   %b = VECTORIZE(LOAD(INDEX(%p, 1)), LOAD(INDEX(%p, 3)))
//   %q = PARAM(; 0):float32*[4]
//   SINK(STORE(CAST(INDEX(%q, 0)):float32x2*[4], %a), STORE(CAST(INDEX(%q, 2)):float32x2*[4], %b))
//   ->
//   %0 = PARAM(; 0):float32*[4]
//   %1 = PARAM(; 1):float32*[4]
//   %2 = VECTORIZE(LOAD(CAST(INDEX(%1, 0)):float32x2*[4]), LOAD(CAST(INDEX(%1,
//     2)):float32x2*[4])):float32x4
//   %3 = STORE(CAST(INDEX(%0, 0)):float32x2*[4], GEP(%2; [0, 2]))
//   SINK(%3, STORE(CAST(INDEX(%0, 2)):float32x2*[4], GEP(%2; [1, 3])))
extern const Rules transposed_loads;
UOp transpose_loads(const UOp& program);

}  // namespace quern
