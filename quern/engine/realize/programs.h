// Kernels to programs that a device runs: code is generated where the device asks for it, and what was
// compiled is kept.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "quern/runtime/device.h"

namespace quern {

std::shared_ptr<const Program> program_for(Device& device, const UOp& kernel);

// Compiles those that are not yet, several at once. Errors are left to program_for.
void compile_ahead(const std::vector<std::pair<Device*, UOp>>& kernels);

}  // namespace quern
