// Values that are put into places (ir/shape/places.h) become a kernel that goes over the source once, in
// order, on memory in which x lies: what is put into one place is combined in the order of the source, by one
// thread, so that the result has the same bits on every device.
//
//   GETTUPLE(TUPLE(y, x, index, source), 0)            ->  AFTER(AFTER(BUFFER, STORE(BUFFER, x)), CALL(SINK,
//   ...)) STORE(x, GETTUPLE(TUPLE(y, x, index, source), 0))  ->  CALL(SINK, x, index, source): only what is
//   put is written
//
// A store of all of a buffer that is used for nothing else has the kernel put there, too. Where it cannot
// (several devices, nothing that is on a device), and where each place gets one value at most, it is y.
#pragma once

#include "quern/schedule/schedule.h"

namespace quern {

UOp put_by_kernels(const UOp& sink, const SpecOf& spec_of);

}  // namespace quern
