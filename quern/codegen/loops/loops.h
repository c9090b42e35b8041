// Passes over the loops of a program.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"
#include "quern/ir/rules/rules.h"

namespace quern {

// A loop that indices take apart, as r / 32 and r % 32, becomes two loops, so that they are affine in both. A
// loop over outputs does not, if the inner one were too short to be lanes.
//
// Pass "cut at divisions":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[128], r0[128])) * LOAD(INDEX(PARAM(; 2):float32*[4], r0 // 32))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[128], r0), %x), r0))
//   ->
//   %0 = r0[4] * 32 + r1[32]
//   %1 = LOAD(INDEX(PARAM(; 1):float32*[128], %0)) * LOAD(INDEX(PARAM(; 2):float32*[4], r0))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[128], %0), %1), r0, r1))
UOp cut_at_divisions(const UOp& program);

// So does a loop of which gates tell a few equal parts apart, as the halves of what two tensors were joined
// to: in each part they are open or closed.
//
// Pass "cut at gates":
//   %x = where(r0[64] < 32, LOAD(INDEX(PARAM(; 1):float32*[32], r0 % 32)), 1.0)
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[64], r0), %x), r0))
//   ->
//   %0 = where(r0[2] < 1, LOAD(INDEX(PARAM(; 1):float32*[32], r1[32])), 1.0)
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[64], r0 * 32 + r1), %0), r0, r1))
UOp cut_at_gates(const UOp& program);

// Loops that are used as one become one. Only the loops of these nodes are looked at.
//
// Pass "merge loops":
//   %i = r0[4] * 8 + r1[8]
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], %i), LOAD(INDEX(PARAM(; 1):float32*[32], %i))), r0, r1))
//   ->
//   %0 = STORE(INDEX(PARAM(; 0):float32*[32], r0[32]), LOAD(INDEX(PARAM(; 1):float32*[32], r0)))
//   SINK(END(%0, r0))
//
// Of kernels whose loops were split, the loops of reduces: what is packed is read in order.
//
// Pass "merge split loops":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[64], r1[4, REDUCE] * 16 + r2[16, REDUCE]))
//   %y = STORE(INDEX(PARAM(; 0):float32*[1], 0), REDUCE(%x, r1, r2; {op: ADD}))
//   SINK(%y; {name: "r_64", opts: ["PACK(0, 1)"]})
//   ->
//   %0 = REDUCE(LOAD(INDEX(PARAM(; 1):float32*[64], r1[64, REDUCE])), r1; {op: ADD})
//   SINK(STORE(INDEX(PARAM(; 0):float32*[1], 0), %0); {name: "r_64", opts: ["PACK(0, 1)"]})
extern const Rules merged_loops;
UOp simplify_loops(const UOp& program, OpSet of = {Op::END, Op::REDUCE},
                   std::string_view name = "merge loops");

// Threads of a workgroup are steps of a loop where cores run loops: what they do before a BARRIER is a loop,
// and what follows is another.
//
// Pass "barriers to loops":
//   %t = DEFINE_LOCAL(; 0):float32*[16]@LOCAL
//   %a = STORE(INDEX(%t, r0[16, LOCAL]), LOAD(INDEX(PARAM(; 1):float32*[16], r0)))
//   %b = LOAD(INDEX(AFTER(%t, BARRIER(END(%a, r0))), 15 - r1[16, LOCAL]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[16], r1), %b), r1))
//   ->
//   %0 = DEFINE_LOCAL(0):float32*[16]@LOCAL
//   %1 = AFTER(%0, END(STORE(INDEX(%0, r0[16, LOCAL]), LOAD(INDEX(PARAM(; 1):float32*[16], r0))), r0))
//   %2 = END(STORE(INDEX(PARAM(; 0):float32*[16], r1[16, LOCAL]), LOAD(INDEX(%1, 15 + r1 * -1))), r1)
//   SINK(%2)
extern const Rules barriers_to_loops;

// A GLOBAL loop around all of a kernel is shared by the threads of the cores, if there is enough to do.
//
// Pass "threads":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[1048576], r0[1024, GLOBAL] * 1024 + r1[1024]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[1048576], r0 * 1024 + r1), %x), r0, r1))
//   ->
//   %0 = (r0[16, THREAD] * 64 + r2[64]) * 1024 + r1[1024]
//   %1 = STORE(INDEX(PARAM(; 0):float32*[1048576], %0), LOAD(INDEX(PARAM(; 1):float32*[1048576], %0)))
//   SINK(END(%1, r0, r2, r1))
extern const Rules thread_loops;
UOp spread_over_threads(const UOp& program, const DeviceSpec& spec);

// Kinds of loops that were not expanded, and those that the device does not have, become plain loops.
//
// Pass "kinds":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[32], r0[8, GLOBAL] * 4 + r1[4, LOCAL]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], r0 * 4 + r1), %x), r0, r1))
//   ->
//   %0 = r0[8] * 4 + r1[4]
//   %1 = END(STORE(INDEX(PARAM(; 0):float32*[32], %0), LOAD(INDEX(PARAM(; 1):float32*[32], %0))),
//     r0, r1)
//   SINK(%1)
extern const Rules plain_kinds;
UOp kinds_to_loops(const UOp& program, const DeviceSpec& spec);

// Each END closes one RANGE. A RANGE that several ENDs close: accumulations that do not depend on each other
// become one loop; the others get a RANGE of their own.
//
// Pass "separate loops":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[32], r1[8] * 4 + r0[4]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], r0 * 8 + r1), %x), r0, r1))
//   ->
//   %0 = LOAD(INDEX(PARAM(; 1):float32*[32], r1[8] * 4 + r0[4]))
//   %1 = END(END(STORE(INDEX(PARAM(; 0):float32*[32], r0 * 8 + r1), %0), r1), r0)
//   SINK(%1)
UOp separate_loops(const UOp& program);

// Threads of the CPU do steps of one loop that is around everything. A RANGE of kind THREAD that is not that,
// which a user may have written, becomes a plain loop. Every END closes one RANGE.
//
// Pass "inner threads":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[32], r0[4] * 8 + r1[8, THREAD]))
//   SINK(END(END(STORE(INDEX(PARAM(; 0):float32*[32], r0 * 8 + r1), %x), r1), r0))
//   ->
//   %0 = r0[4] * 8 + r1[8]
//   %1 = END(STORE(INDEX(PARAM(; 0):float32*[32], %0), LOAD(INDEX(PARAM(; 1):float32*[32], %0))), r1)
//   SINK(END(%1, r0))
extern const Rules loops_of_threads;
UOp inner_threads_to_loops(const UOp& program);

}  // namespace quern
