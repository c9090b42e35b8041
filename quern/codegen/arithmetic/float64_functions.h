// EXP2, LOG2, SIN and COS of float64 as arithmetic with fused multiply-adds, for vectors as well as scalars.
// Errors are below 1 unit in the last place (EXP2 of results below the least normal value: 1.5). SIN and COS
// of 2^20 and more are those of the C library, in a branch.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern::arithmetic {

UOp exp2_float64(const UOp& x);
UOp log2_float64(const UOp& x);
UOp wave_float64(const UOp& sin_or_cos);  // none: it is to stay as it is

}  // namespace quern::arithmetic
