// Kernels that read the same memory in the same loops become one with several outputs.
#pragma once

#include "quern/schedule/schedule.h"

namespace quern {

// END(STORE) effects of one shape are joined to END(GROUP(STORE, ...)): all values are computed before any is
// stored.
UOp merge_outputs(const UOp& sink, const SpecOf& spec_of);

}  // namespace quern
