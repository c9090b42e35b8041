// Ranges to workgroups and their threads, on devices that have them.
#pragma once

#include "quern/ir/pass/device_spec.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {

// Why the steps of this kernel have to be done in order, one after the other; "" if they need not.
std::string must_be_in_order(const UOp& program);

// Loops over all that is stored become GLOBAL, unless a reduce would be computed again by that. Then GLOBAL
// ranges are hardware indices gidx0 to gidx2 and ranges of threads lidx0 to lidx2:
//   END(STORE(INDEX(p, r0[8, GLOBAL] * 16 + r1[16, LOCAL]), x), r0, r1)
//   ->  STORE(INDEX(p, SPECIAL(8; gidx0) * 16 + SPECIAL(16; lidx0)), x)
// A REDUCE over threads goes through LOCAL memory (group_reduce.h). What all threads of a workgroup would
// store is stored by the first. The loops of a kernel with LOCAL memory are spread over threads.
UOp ranges_to_workgroups(const UOp& program, const DeviceSpec& spec);

// LOCAL memory that is used again in the next step of a loop: a BARRIER at the end of each step. An Error for
// a BARRIER in a loop that is not the same for all threads.
void add_barriers_to_loops(LinearProgram& program);

}  // namespace quern
