// How long a kernel takes under a list of opts: arithmetic on a Summary, without applying them.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "quern/codegen/cost/summary.h"
#include "quern/ir/pass/device_spec.h"

namespace quern::cost {

// How the steps of one loop are done.
struct Split {
  int64_t steps = 1;  // padded
  int64_t pad = 1;    // to a multiple of it
  int64_t threads = 1;
  int64_t block = 0;   // steps of a block; 0: it has none
  int64_t first = 1;   // neighbours that are done at once, which may be lanes
  int64_t copies = 1;  // all that is done at once
};

// What a list of opts says, loop by loop.
struct LoopPlan {
  std::vector<Split> splits;
  std::vector<size_t> order;  // of loops, as they are nested
  std::vector<std::pair<size_t, size_t>> swaps;
  std::vector<size_t> blocks;  // loops that have them, outermost first
  Ints packed;                 // arguments
};
LoopPlan plan_of(const Summary& kernel);                                   // of no opts
std::optional<LoopPlan> plan_of(const Summary& kernel, const Opts& opts);  // none: not understood
Opts opts_of(const Summary& kernel, const LoopPlan& plan);  // of one in which nothing is packed
// So many neighbouring steps more at once. The loops of reduces that stand side by side go together.
void do_at_once(const Summary& kernel, LoopPlan& plan, size_t loop, int64_t amount);
void pad_to(const Summary& kernel, LoopPlan& plan, size_t loop, int64_t amount);

// What a thread does, and what all of them move.
struct Work {
  double compute = 0;                                   // cycles in which instructions are issued
  double chain = 0;                                     // cycles in which sums wait for each other
  double l2_bytes = 0, l3_bytes = 0, memory_bytes = 0;  // that come from each
  double pages = 0;                                     // that are gone to
  double spills = 0;                                    // registers that are missing
  double once = 0;                                      // cycles for copies that are made first
  int64_t threads = 1;
};

Work work_of(const Summary& kernel, const LoopPlan& plan, const DeviceSpec& spec);

int64_t picoseconds(const Work& work, const DeviceSpec& spec);

}  // namespace quern::cost
