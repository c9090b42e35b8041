// What has to be computed and stored so that tensors are in memory.
#pragma once

#include <unordered_map>

#include "quern/ir/uop.h"

namespace quern {

struct Outputs {
  UOp sink;                               // of AFTERs; without sources if there is nothing to do
  std::unordered_map<UOp, UOp> replaced;  // what live tensors hold -> the memory that holds it afterwards
};

// `roots` are nodes of tensors; those that are views of memory need nothing, unless `copied` says that they
// are to have memory of their own. Other live tensors take part where they have to: values that were asked to
// be CONTIGUOUS and are computed on the way are kept, and values that read memory which is now overwritten
// are computed before.
Outputs outputs_for(const UOps& roots, bool copied, const UOps& live);

// The greatest that a size can be, whatever its variables are bound to.
int64_t greatest(const UOp& size);

// The same with the variables' values in place of the BINDs.
UOp with_values(const UOp& u);

// Sizes that are numbers once they are simplified. A ShapeError for a variable that has no value.
Ints known_sizes(Sources shape);

}  // namespace quern
