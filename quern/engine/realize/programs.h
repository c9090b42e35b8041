// Kernels to programs that a device runs. What was compiled is kept in this process. Otherwise the device
// gets a key and a function that generates the code: it looks on disk by the key (CPU: kept_or_made in
// runtime/cpu/program.cpp), and calls the function only if nothing is there.
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
