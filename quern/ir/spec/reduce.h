// What the spec says of a REDUCE: of one value by an op, or of several values by a body (node/reduce.h).
#pragma once

#include "quern/ir/node/reduce.h"

namespace quern::spec {

bool counts_states(const UOp& u);
bool reduces_value(const UOp& u);
bool initial_values_fit(const UOp& u);
bool body_fits(const UOp& u);
bool reduces_ranges(const UOp& u);

}  // namespace quern::spec
