// Stores of kernels that go through more memory than the last cache holds: what they write is not kept there,
// and the line of memory that it replaces not read first.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern {

// STORE(address, value):float32x8  ->  the same with the tag "stream", where whole lines of the cache are
// written, at multiples of a vector from the start of memory that the kernel does not read.
UOp mark_streams(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
