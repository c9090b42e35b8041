// Rows of memory that a kernel goes over more than once: while it computes with one, the next one is fetched.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"
#include "quern/ir/rules/rules.h"

namespace quern {

// for row: { for i: reduce(load(row, i)); for j: ... LOAD(row, j) ... }
//   ->  the second LOAD with the distance of the next row as its hint, one for each line of the cache
//
// Pass "fetch ahead":
//   %m = REDUCE(LOAD(INDEX(PARAM(; 1):float32*[1048576], r0[1024] * 1024 + r1[1024, REDUCE])), r1; {op: MAX})
//   %x = LOAD(INDEX(PARAM(; 1):float32*[1048576], r0 * 1024 + r2[1024]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[1048576], r0 * 1024 + r2), %x - %m), r0, r2))
//   ->
//   %0 = r0[1024] * 1024
//   %1 = %0 + r2[1024]
//   %2 = PARAM(; 1):float32*[1048576]
//   %3 = LOAD(INDEX(%2, %1))@{prefetch: 1024} + REDUCE(LOAD(INDEX(%2, %0 + r1[1024, REDUCE])), r1;
//     {op: MAX}) * -1.0
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[1048576], %1), %3), r0, r2))
extern const Rules fetching_loads;
UOp fetch_ahead(const UOp& program, const DeviceSpec& spec);

}  // namespace quern
