// Stores of kernels that go through more memory than the last cache holds: what they write is not kept there,
// and the line of memory that it replaces not read first.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"
#include "quern/ir/rules/rules.h"

namespace quern {

// STORE(address, value):float32x8  ->  the same with the hint "stream", where whole lines of the cache are
// written, at multiples of a vector from the start of memory that the kernel does not read.
//
// Pass "streams":
//   %x = LOAD(CAST(INDEX(PARAM(; 1):float32*[8388608], r0[524288] * 16)):float32x16*[8388608])
//   SINK(END(STORE(CAST(INDEX(PARAM(; 0):float32*[8388608], r0 * 16)):float32x16*[8388608], %x), r0))
//   ->
//   %0 = r0[524288] * 16
//   %1 = LOAD(CAST(INDEX(PARAM(; 1):float32*[8388608], %0)):float32x16*[8388608])
//   %2 = CAST(INDEX(PARAM(; 0):float32*[8388608], %0)):float32x16*[8388608]
//   SINK(END(STORE(%2, %1)@{stream: true}, r0))
extern const Rules streamed_stores;
UOp mark_streams(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
