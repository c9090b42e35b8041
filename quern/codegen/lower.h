// From a kernel to a program: loops over ranges, loads and stores, arithmetic that the device has.
#pragma once

#include "quern/ir/device_spec.h"
#include "quern/ir/linear.h"

namespace quern {

// Where optimisations come from: those that the kernel names and no others, or, if it names none, those that
// OPTS gives, or the heuristic unless NOOPT is set.
enum class OptChoice : uint8_t { given, best };

// The kernel (SINK, kernel level) at program level, not yet in line. An Error for what is no kernel, or a
// kernel that the device cannot run.
// The opts that were applied are those of the result's KernelArg.
UOp lower_to_program(const UOp& kernel, const DeviceSpec& device, OptChoice choice = OptChoice::given);

// The same, in line.
LinearProgram lower(const UOp& kernel, const DeviceSpec& spec, OptChoice choice = OptChoice::given);

}  // namespace quern
