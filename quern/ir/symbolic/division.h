// Division of sums by constants. Internal to symbolic.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// x // c and x % c in their simplest form, for c > 0 and an x that is simple itself.
UOp floor_divided(const UOp& x, wide c);
UOp floor_remainder(const UOp& x, wide c);

}  // namespace quern
