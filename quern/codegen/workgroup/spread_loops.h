// Kernels with LOCAL memory: what fills it and what uses it, spread over the threads of a workgroup.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern {

// Loops beside BARRIERs, innermost ones, become steps of T threads each:
//   BARRIER(END(STORE(INDEX(%local, r1[100]), x), r1))
//   ->  BARRIER(END(STORE(INDEX(%local, r1[(163 - r2) // 64] * 64 + r2[64, LOCAL]), x), r1, r2))
// Loops of `global` stay. In kernels that have ranges of threads already, those with more steps than a
// workgroup has threads are split.
UOp spread_loops(const UOp& program, const UOps& global, const DeviceSpec& spec);

}  // namespace quern
