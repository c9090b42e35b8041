// What has to be computed and stored so that tensors are in memory.
#pragma once

#include <unordered_map>

#include "quern/ir/node/uop.h"

namespace quern {

struct Outputs {
  UOp sink;                               // of AFTERs; without sources if there is nothing to do
  std::unordered_map<UOp, UOp> replaced;  // what live tensors hold -> the memory that holds it afterwards
};

// What is done with roots that are views of something.
enum class Roots {
  realized,  // memory needs nothing; of a value that other tensors see, too, the whole gets memory
  read,      // memory needs nothing; of a value, just what is seen gets memory
  copied,    // memory of its own, in any case
};

// `roots` are nodes of tensors. Other live tensors take part where they have to: values that were asked to
// be CONTIGUOUS and are computed on the way are kept, and values that read memory which is now overwritten
// are computed before.
Outputs outputs_for(const UOps& roots, Roots as, const UOps& live);

// The body of a CALL, which has nothing in it but its PARAMs: walks over tensors leave it out.
bool is_kernel(const UOp& u);

// An AFTER of memory: what the memory holds after the effects.
bool is_state(const UOp& u);

// The memory that is seen through views and AFTERs; none if something is computed.
UOp buffer_under(const UOp& x);

// What gets memory when this value does: the whole value of which it is a view, if other tensors see that,
// too.
const UOp& seen_together(const UOp& u);

// The greatest that a size can be, whatever its variables are bound to.
int64_t greatest(const UOp& size);

// The same with the variables' values in place of the BINDs.
UOp with_values(const UOp& u);

// Sizes that are numbers once they are simplified. A ShapeError for a variable that has no value.
Ints known_sizes(Sources shape);

}  // namespace quern
