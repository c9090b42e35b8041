// How memory is reached: kernels may say `INDEX(memory, i, j)` for an element; programs have LOAD and STORE
// through addresses with one index.
#pragma once

#include "quern/ir/rules/rules.h"

namespace quern {

// Pass "addresses":
//   %x = RESHAPE(PARAM(; 1):float32*[32], 4, 8)
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], r1[8] * 4 + r0[4]), INDEX(%x, r0, r1):float32 * 2.0), r0,
//   r1))
//   ->
//   %0 = LOAD(INDEX(PARAM(; 1):float32*[32], r0[4] * 8 + r1[8])) * 2.0
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], r1 * 4 + r0), %0), r0, r1))
extern const Rules elements_to_addresses;
UOp to_addresses(const UOp& kernel);

// A LOAD is 0 where its gate is closed.
//
// Pass "double gates":
//   %g = r0[8] < 5
//   %x = LOAD(INDEX(PARAM(; 1):float32*[5], where(%g, r0, invalid)))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), where(%g, %x, 0.0)), r0))
//   ->
//   %0 = LOAD(INDEX(PARAM(; 1):float32*[5], where(r0[8] < 5, r0, invalid)))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), %0), r0))
extern const Rules double_gates;

// A LOAD with a gate says what it is where that is closed; a STORE to where nothing ever is becomes nothing.
//
// Pass "alternatives":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[5], where(r0[8] < 5, r0, invalid)))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), %x), r0))
//   ->
//   %0 = LOAD(INDEX(PARAM(; 1):float32*[5], where(r0[8] < 5, r0, invalid)), 0.0:float32)
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), %0), r0))
//
// Only the index of an INDEX has a gate afterwards: values that are invalid
// somewhere may be anything there.
extern const Rules gates_to_alternatives;

}  // namespace quern
