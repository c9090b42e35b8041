// What is provably not above 0, which makes an EXP2 of it cheaper.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// EXP2((x - max over i of x(i)) * 1.44)  ->  the same with a tag: what a softmax takes the exponential of.
// While the REDUCE is still there to be seen.
UOp mark_not_positive(const UOp& program);

// Of an EXP2: it is marked, or its argument is -|x|, as where(x < -x, x, -x), or where(0 < x, 0, x). Or it is
// NaN.
bool is_of_not_positive(const UOp& exp2);

}  // namespace quern
