// A reduce over so many elements that one kernel could not keep the device busy becomes two.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

UOp split_reduce(const UOp& reduce);  // none: it is not large, or cannot be split

}  // namespace quern
