// Kinds of ranges in kernels that users wrote. Whatever its kind, a range computes what a loop computes. The
// steps of threads, lanes and copies are done together, so such a kind is refused where a step may need what
// another one stored: in a register of a thread, in a register that lanes share, in a place that is written
// twice.
#pragma once

#include <string>

#include "quern/ir/node/uop.h"

namespace quern {

// Why the steps of a range cannot be done apart from each other, each by a thread (or a workgroup) of its
// own; "" if they can. `program` is a kernel whose memory is read by LOADs and written through addresses.
std::string why_steps_depend(const UOp& program, const UOp& range);

// Whether steps of loops may store to the same place, of which the last is to stay: an index with divisions
// from which it is not clear which step a place belongs to.
bool may_store_twice(const UOp& program);

// An Error for a range of kind GLOBAL, LOCAL, WARP, THREAD, GROUP_REDUCE, UPCAST or UNROLL that would not do
// what a loop does. Others stay as they are.
//
// Pass "check kinds":
//   %x = LOAD(INDEX(PARAM(; 1):float32*[8], r0[8, UPCAST]))
//   SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), %x), r0))
//   ->
//   %0 = STORE(INDEX(PARAM(; 0):float32*[8], r0[8, UPCAST]), LOAD(INDEX(PARAM(; 1):float32*[8], r0)))
//   SINK(END(%0, r0))
void check_given_kinds(const UOp& program);

}  // namespace quern
