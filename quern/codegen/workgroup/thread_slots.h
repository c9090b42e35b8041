// Which ranges are gone over by the threads of a workgroup, and which of them by the same thread index:
// ranges that are never open together are siblings, and share one if they have as many steps.
#pragma once

#include <vector>

#include "quern/ir/node/uop.h"

namespace quern {

struct ThreadSlot {
  int64_t size = 1;
  UOps ranges;  // RANGEs of kind LOCAL, WARP and GROUP_REDUCE
};

// The slot first along which most accesses go to neighbours. An Error for a range of threads whose size is
// symbolic.
std::vector<ThreadSlot> thread_slots(const UOp& program);

int64_t threads_of(const std::vector<ThreadSlot>& slots);

bool is_of_threads(const UOp& range);

bool contains(const UOps& list, const UOp& u);

}  // namespace quern
