// Values that are stored by one kernel and read by another in the same loops, each at the place where it is
// stored: the second computes them too, waits for nothing, and can be one kernel with the first (merge.h).
#pragma once

#include "quern/schedule/schedule.h"

namespace quern {

UOp forward_values(const UOp& sink, const SpecOf& spec_of);

}  // namespace quern
