// The shares of a REDUCE that the threads of a workgroup have, combined through LOCAL memory so that every
// thread has the result.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// The threads of a workgroup as a REDUCE sees them.
struct GroupThreads {
  UOp index;           // of this thread among all of its workgroup
  int64_t count = 1;   // of threads
  UOp along;           // its index along the range that is reduced
  int64_t steps = 1;   // of that range
  int64_t stride = 1;  // by how much `index` grows with `along`
};

// In steps of at most 16: each thread writes what it has, and behind a barrier reads and combines those of
// the threads that differ from it in one digit of `along`:
//   %l = DEFINE_LOCAL; %done = BARRIER(STORE(INDEX(%l, index), share))
//   REDUCE(LOAD(INDEX(AFTER(%l, %done), index with the digit r)), r)
// `next_local` and `next_range` are numbers that are free, and are counted up.
UOp combine_in_group(Op op, const UOp& share, const GroupThreads& threads, int64_t& next_local,
                     int64_t& next_range);

// Bytes of LOCAL memory that this takes.
int64_t local_bytes_to_combine(DType dtype, int64_t steps, int64_t threads);

}  // namespace quern
