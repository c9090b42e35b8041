// Which optimisations a kernel gets on a device with workgroups.
#pragma once

#include "quern/codegen/opt/opt.h"

namespace quern {

// As choose_opts in heuristic.h, which calls it; `program` can be optimised.
Opts choose_workgroup_opts(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
