// Long sums of floats as sums of sums.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// Each addition rounds by as much as the sum so far is long: with n numbers one after the other errors grow
// with n, with parts of as many numbers as there are parts with the root of n.
//   REDUCE(x(r1[64], r2[25]), r1, r2; ADD)  ->  REDUCE(REDUCE(x(r1[16] * 4 + r3[4], r2), r3, r2; ADD), r1;
//   ADD)
// Other reduces in the same loops, a maximum beside a sum, are parted with them, so that they stay together.
UOp sums_in_parts(const UOp& program);

}  // namespace quern
