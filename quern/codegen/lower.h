// From a kernel to a program: loops over ranges, loads and stores, arithmetic that the device has.
#pragma once

#include "quern/ir/device_spec.h"
#include "quern/ir/linear.h"

namespace quern {

// The kernel (SINK, kernel level) at program level, not yet in line. An Error for what is no kernel, or a
// kernel that the device cannot run.
UOp lower_to_program(const UOp& kernel, const DeviceSpec& spec);

// The same, in line.
LinearProgram lower(const UOp& kernel, const DeviceSpec& spec);

}  // namespace quern
