// EXP2, LOG2 and SIN of float32 (and of what is computed in it) as arithmetic that every device has and that
// works on vectors as well as on scalars. Errors, in units in the last place: EXP2 and LOG2 below 1 (EXP2 of
// results below the least normal value: 1.5), SIN 0.51, for every float32. Those of float64 stay: the
// renderer calls the C library, as eval() does. On one device a function of the same number is the same in
// each kernel, in lanes and alone: a maximum is found again among values that are computed again.
#pragma once

#include "quern/ir/rewrite/rewrite.h"

namespace quern {

extern const Rules transcendental;
extern const Rules transcendental_fused;     // with MULACC: fewer operations
extern const Rules transcendental_but_exp2;  // the same; EXP2 of vectors stays

}  // namespace quern
