// Floats that a device has in memory but does not compute with: float8, and bfloat16 or float16 where its
// DeviceSpec says so. In memory they are their bits. A value of such a type is held as a float32 that is
// exactly one of its values; arithmetic is that of float32, and each result is rounded to the type again,
// which gives the bits of eval(): for sums, products, quotients and roots rounding twice is rounding once,
// since float32 has more than twice as many bits.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern {

UOp narrow_floats_to_wide(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
