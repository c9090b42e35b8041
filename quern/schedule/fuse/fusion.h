// Is a value computed where it is used, or materialised, and why? Decided here for all values that nothing
// forces into memory; docs/schedule.md lists what does.
#pragma once

#include <map>

#include "quern/schedule/fuse/plan.h"

namespace quern {

struct Verdict {
  NodePlan::Memory memory = NodePlan::Memory::none;
  std::string reason;     // of what is materialised
  bool removable = true;  // if it turns out to be of few operations
  // Not materialised: the loops around the reduces below it. In LOCAL memory: the loops around that.
  UOps loops_around;
  std::vector<size_t> axes;  // in LOCAL: the axes that memory has
};

// What a decision may look at. `outer_of` gives, for a range that a reduce opened, the loops around that
// reduce.
struct Question {
  const UOp& node;
  const Facts& facts;
  const std::vector<Use>& uses;
  const Plan& plan;
  const std::map<UOp, UOps, bool (*)(const UOp&, const UOp&)>& outer_of;
};
Verdict decide(const Question& question);

}  // namespace quern
