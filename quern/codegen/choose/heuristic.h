// Opts by rules of thumb: from the DeviceSpec and the kernel's accesses to memory, no table of shapes.
#pragma once

#include "quern/codegen/opt/opt.h"

namespace quern {

// `program` is a kernel after simplify_loops. The opts apply to it; there may be none.
Opts heuristic_opts(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
