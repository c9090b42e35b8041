// Passes over the loops of a program.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern {

// Loops that are used as one become one: END(STORE(INDEX(p, r0[4] * 8 + r1[8]), x), r0, r1) goes over 32
// steps. Only the loops of these nodes are looked at.
UOp simplify_loops(const UOp& program, OpSet of = {Op::END, Op::REDUCE});

// Threads of a workgroup are steps of a loop where cores run loops: what they do before a BARRIER is a loop,
// and what follows is another.
UOp barriers_to_loops(const UOp& program);

// A GLOBAL loop around all of a kernel is shared by the threads of the cores, if there is enough to do.
UOp spread_over_threads(const UOp& program, const DeviceSpec& spec);

// Kinds of loops that were not expanded, and those that the device does not have, become plain loops.
UOp kinds_to_loops(const UOp& program, const DeviceSpec& spec);

// END(x, r0, r1)  ->  END(END(x, r1), r0). A RANGE that several ENDs close: accumulations that do not depend
// on each other become one loop; the others get a RANGE of their own.
UOp separate_loops(const UOp& program);

// Threads of the CPU do steps of one loop that is around everything. A RANGE of kind THREAD that is not that,
// which a user may have written, becomes a plain loop. Every END closes one RANGE.
UOp inner_threads_to_loops(const UOp& program);

}  // namespace quern
