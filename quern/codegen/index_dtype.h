// Index arithmetic in the integers of a machine: int32 where bounds show that it is enough, else int64.
#pragma once

#include "quern/ir/uop.h"

namespace quern {

UOp index_to_integers(const UOp& program);

}  // namespace quern
