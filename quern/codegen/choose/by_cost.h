// Lists of opts in the order of the cost model.
#pragma once

#include <vector>

#include "quern/codegen/cost/estimate.h"

namespace quern {

struct Priced {
  Opts opts;
  int64_t picoseconds = 0;
};

// Starts from no opts, and goes on from the best lists with one thing more that is done at once, in threads,
// padded or in another order, as long as the estimate falls. All that were looked at, the best first; equal
// estimates in the order of their making. Few of them may not apply.
std::vector<Priced> priced_opts(const cost::Summary& kernel, const DeviceSpec& spec);

}  // namespace quern
