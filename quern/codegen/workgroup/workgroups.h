// Ranges to workgroups and their threads, on devices that have them.
#pragma once

#include "quern/ir/pass/device_spec.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rules/rules.h"

namespace quern {

// Why the steps of this kernel have to be done in order, one after the other; "" if they need not.
std::string must_be_in_order(const UOp& program);

// Loops over all that is stored become GLOBAL, unless a reduce would be computed again by that. Then GLOBAL
// ranges are hardware indices gidx0 to gidx2 and ranges of threads lidx0 to lidx2. A REDUCE over threads goes
// through LOCAL memory (group_reduce.h). What all threads of a workgroup would store is stored by the first.
// The loops of a kernel with LOCAL memory are spread over threads.
//
// Pass "workgroups", with workgroups:
//   %x = LOAD(INDEX(PARAM(; 1):float32*[128], r0[8, GLOBAL] * 16 + r1[16, LOCAL]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[128], r0 * 16 + r1), %x), r0, r1))
//   ->
//   %0 = SPECIAL(8; "gidx0") * 16 + SPECIAL(16; "lidx0")
//   SINK(STORE(INDEX(PARAM(; 0):float32*[128], %0), LOAD(INDEX(PARAM(; 1):float32*[128], %0))))
//
// Pass "workgroups", with workgroups:
//   %x = REDUCE(LOAD(INDEX(PARAM(; 1):float32*[16], r0[16, GROUP_REDUCE])), r0; {op: ADD})
//   SINK(STORE(INDEX(PARAM(; 0):float32*[1], 0), %x))
//   ->
//   %0 = SPECIAL(16; "lidx0")
//   %1 = DEFINE_LOCAL(0):float32*[16]@LOCAL
//   %2 = 0 + %0 * 1
//   %3 = AFTER(%1, BARRIER(STORE(INDEX(%1, %2), REDUCE(LOAD(INDEX(PARAM(; 1):float32*[16], %0));
//     {op: ADD}))))
//   %4 = REDUCE(LOAD(INDEX(%3, %2 + (r1[16, REDUCE] + %0 // 1 % 16 * -1) * 1)), r1; {op: ADD})
//   SINK(STORE(INDEX(PARAM(; 0):float32*[1], where(%0 == 0, 0, invalid:index)), %4))
extern const Rules workgroup_indices;
UOp ranges_to_workgroups(const UOp& program, const DeviceSpec& spec);

// LOCAL memory that is used again in the next step of a loop: a BARRIER at the end of each step. An Error for
// a BARRIER in a loop that is not the same for all threads.
void add_barriers_to_loops(LinearProgram& program);

}  // namespace quern
