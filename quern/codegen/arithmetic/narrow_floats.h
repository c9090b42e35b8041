// Floats that a device has in memory but does not compute with: float8, and bfloat16 or float16 where its
// DeviceSpec says so. In memory they are their bits. A value of such a type is held as a float32 that is
// exactly one of its values; arithmetic is that of float32, and each result is rounded to the type again,
// which gives the bits of eval(): for sums, products, quotients and roots rounding twice is rounding once,
// since float32 has more than twice as many bits.
//
// Pass "narrow floats":
//   %x = LOAD(INDEX(PARAM(; 1):bfloat16*[8], r0[8:int32]))
//   SINK(END(STORE(INDEX(PARAM(; 0):bfloat16*[8], r0), %x), r0))
//   ->
//   %0 = END(STORE(INDEX(PARAM(; 0):uint16*[8], r0[8:int32]), LOAD(INDEX(PARAM(; 1):uint16*[8],
//     r0))), r0)
//   SINK(%0)
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"
#include "quern/ir/rules/rules.h"

namespace quern {

extern const Rules wide_floats;
UOp narrow_floats_to_wide(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
