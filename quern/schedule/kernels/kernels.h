// Effects on memory to kernels: each is cut out of the graph, its memory becomes PARAMs and its loops are
// numbered anew, so that equal kernels are equal nodes.
#pragma once

#include "quern/schedule/schedule.h"

namespace quern {

// Steps in an order in which they may run: what is read is written before, and what is overwritten is read
// before.
//
// Memory that has to be read in two states at once, or kernels that wait for each other, are no mistake of
// the user's: a copy of the old contents helps. `contested` is filled with memory (BUFFERs) that needs one;
// then there are no steps.
struct Steps {
  std::vector<Step> steps;
  UOps contested;
  Texts circle;  // names of kernels that wait for each other
};
Steps split_into_kernels(const UOp& sink);

}  // namespace quern
