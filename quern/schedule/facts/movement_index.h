// Movement ops as index arithmetic: which place of its source a place of the result comes from.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

struct SourceIndex {
  UOps index;  // one for each axis of the source; invalid where there is nothing to read
  UOp valid;   // a bool: is there anything to read? None: everywhere
};

// `movement` is a movement op, `index` has an index for each of its axes.
SourceIndex source_index(const UOp& movement, Sources index);

// The place in memory of an element of a tensor with these sizes, row by row.
UOp flat_index(Sources index, Sources sizes);

}  // namespace quern
