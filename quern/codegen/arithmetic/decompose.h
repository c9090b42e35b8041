// Ops in terms of those that hardware has, with the results that eval() defines: afterwards
//   - FLOORDIV, FLOORMOD, POW of integers and THREEFRY are gone; bools have AND, OR and XOR only;
//   - a divisor of TRUNCDIV and TRUNCMOD is not 0, and not -1 where the least integer may be divided;
//   - a shift is by less than the width.
// What is left to renderers, to be done as eval() does it: casts of floats to integers saturate and NaN gives
// 0; MAX and MIN of floats give NaN if either is NaN, and -0.0 is less than 0.0.
//
// Pass "decompose":
//   %x = LOAD(INDEX(PARAM(; 1):uint32*[8], r0[8:int32]))
//   SINK(END(STORE(INDEX(PARAM(; 0):uint32*[8], r0), %x // 3), r0))
//   ->
//   %0 = STORE(INDEX(PARAM(; 0):uint32*[8], r0[8:int32]), truncdiv(LOAD(INDEX(PARAM(;
//     1):uint32*[8], r0)), 3))
//   SINK(END(%0, r0))
#pragma once

#include "quern/ir/rewrite/rewrite.h"

namespace quern {

extern const Rules decompositions;

}  // namespace quern
