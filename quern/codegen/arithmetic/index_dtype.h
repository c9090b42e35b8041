// Index arithmetic in the integers of a machine: int32 where bounds show that it is enough, else int64.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// Before that: sums that are addresses are int64, where the device has these anyway. Then a constant in them
// is part of an instruction, and what is added in a loop is added to a pointer.
UOp addresses_in_64_bits(const UOp& program);

UOp index_to_integers(const UOp& program);

}  // namespace quern
