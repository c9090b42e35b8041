// EXP2, LOG2, SIN, COS and POW of float32 (and of what is computed in it) as arithmetic that every device has
// and that works on vectors as well as on scalars. Errors, in units in the last place: EXP2 below 1 (of
// results below the least normal value: 1.5), LOG2 0.57, SIN, COS and POW 0.51, for every float32. Of float64
// the rules with MULACC write EXP2, LOG2, SIN and COS; the others stay: the renderer calls the C library, as
// eval() does. On one device a function of the same number is the same in each kernel, in lanes and alone: a
// maximum is found again among values that are computed again.
//
// Pass "transcendental":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[8], r0[8:int32]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), EXP2(%x)), r0))
//   ->
//   %0 = LOAD(INDEX(PARAM(; 1):float32*[8], r0[8:int32]))
//   %1 = where(%0 < -151.0, -151.0, where(129.0 < %0, 129.0, %0))
//   %2 = %1 + 12582912.0
//   %3 = SUB(%1, SUB(%2, 12582912.0))
//   %4 = %3 * 0.6931472
//   %5 = 1.0 + %4
//   %6 = SUB(%4, SUB(%5, 1.0)) + %3 * %3 * (((((1.5297324e-05 * %3 + 0.00015461445) * %3 +
//     0.0013333502) * %3 + 0.009618057) * %3 + 0.05550411) * %3 + 0.2402265)
//   %7 = BITCAST(%2):int32 + BITCAST(12582912.0:float32):int32 * -1
//   %8 = %7 >> 1
//   %9 = (%5 + %6) * BITCAST(%8 + 127 << 23):float32 * BITCAST(%7 + %8 * -1 + 127 << 23):float32
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), where(%0 != %0, %0, %9)), r0))
#pragma once

#include "quern/ir/rewrite/rewrite.h"

namespace quern {

extern const Rules transcendental;
extern const Rules transcendental_fused;     // with MULACC: fewer operations
extern const Rules transcendental_but_exp2;  // the same; EXP2 of vectors stays

}  // namespace quern
