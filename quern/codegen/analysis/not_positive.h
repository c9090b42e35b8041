// What is provably not above 0, which makes an EXP2 of it cheaper.
#pragma once

#include "quern/ir/rules/rules.h"

namespace quern {

// EXP2((x - max over i of x(i)) * 1.44)  ->  the same with a hint: what a softmax takes the exponential of.
// While the REDUCE is still there to be seen.
//
// Pass "signs":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[8], r0[8]))
//   %most = REDUCE(LOAD(INDEX(PARAM(; 1):float32*[8], r1[8, REDUCE])), r1; {op: MAX})
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), EXP2((%x - %most) * 1.442695)), r0))
//   ->
//   %0 = PARAM(; 1):float32*[8]
//   %1 = (LOAD(INDEX(%0, r0[8])) + REDUCE(LOAD(INDEX(%0, r1[8, REDUCE])), r1; {op: MAX}) *
//     -1.0) * 1.442695
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), EXP2(%1)@{not_positive: true}), r0))
extern const Rules signs;
UOp mark_not_positive(const UOp& program);

// Of an EXP2: it is marked, or its argument is -|x|, as where(x < -x, x, -x), or where(0 < x, 0, x). Or it is
// NaN.
bool is_of_not_positive(const UOp& exp2);

}  // namespace quern
