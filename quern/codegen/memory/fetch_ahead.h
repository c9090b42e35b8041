// Rows of memory that a kernel goes over more than once: while it computes with one, the next one is fetched.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern {

// for row: { for i: reduce(load(row, i)); for j: ... LOAD(row, j) ... }
//   ->  the second LOAD with the distance of the next row as its tag, one for each line of the cache
UOp fetch_ahead(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
