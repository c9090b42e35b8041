// Kernels to programs that a device runs: code is generated where the device asks for it, and what was
// compiled is kept.
#pragma once

#include <memory>

#include "quern/runtime/device.h"

namespace quern {

std::shared_ptr<const Program> program_for(Device& device, const UOp& kernel);

}  // namespace quern
