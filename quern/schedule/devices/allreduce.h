// ALLREDUCE: values of all devices combined, the result on each of them, the same to the bit.
//
// Small ones (naive): everyone gets all values and combines them in the order of the devices. Large ones
// (ring): the value is cut into one chunk a device; each chunk goes around once and is combined on its way,
// then the result is sent to everyone. RING=0 never, 1 for many elements on more than two devices, 2 always.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

UOp lower_allreduce(const UOp& sink);

}  // namespace quern
