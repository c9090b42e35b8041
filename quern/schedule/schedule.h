// From a graph of tensors to kernels: the order in which they run, the memory that each of them reads and
// writes, and why that memory exists.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"
#include "quern/ir/pass/pass_info.h"

namespace quern {

// One step. `program` is one of
//   SINK   a kernel (kernel level): its PARAMs are pointers, PARAM i is buffers[i]; its KernelArg holds its
//          name
//   COPY   buffers[1] is copied into buffers[0], which lies on another device
//   and, if it is a call, a SINK of AFTERs over PARAMs (tensor level): a program of its own, which
//   make_schedule() takes in turn
struct Step {
  UOp program;
  UOps buffers;  // BUFFERs (of identity UNIQUE: the user's; LUNIQUE: the schedule's own), or SLICEs of them;
                 // on several devices also MSELECT and MSTACK
  bool is_call = false;
  Texts reasons =
      {};  // why what a kernel writes is materialised; not of the program: equal kernels are equal
};

struct Schedule {
  std::vector<Step> steps;  // in an order in which they may run
};

using SpecOf = std::function<const DeviceSpec&(const std::string& device)>;

// `sink` is a SINK of AFTERs (tensor level): each is memory together with the STOREs into it that have to
// happen.
Schedule make_schedule(const UOp& sink, const SpecOf& spec_of);

// The passes that scheduling runs, in order.
std::vector<PassInfo> scheduling_passes();

// The graph as the pass called `last` leaves it, in the first round.
UOp schedule_until(const UOp& sink, const SpecOf& spec_of, std::string_view last);

// One pass alone, on a graph as the pass before it leaves it. An Error if there is none of this name.
UOp schedule_by(std::string_view pass, const UOp& graph, const SpecOf& spec_of);

}  // namespace quern
