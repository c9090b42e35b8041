// Which optimisations a kernel gets if nobody says.
#pragma once

#include "quern/codegen/opt/opt.h"

namespace quern {

// What the heuristic says, unless the cost model knows a list that takes much less time. `program` is a
// kernel after simplify_loops. The opts apply to it; there may be none.
Opts choose_opts(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
