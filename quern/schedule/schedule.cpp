// The table of contents of the scheduler: one line a pass.
#include "quern/schedule/schedule.h"

#include "quern/ir/error.h"
#include "quern/ir/rewrite.h"
#include "quern/ir/spec.h"
#include "quern/ir/symbolic.h"
#include "quern/schedule/collapse.h"
#include "quern/schedule/early.h"
#include "quern/schedule/forward.h"
#include "quern/schedule/kernels.h"
#include "quern/schedule/limit.h"
#include "quern/schedule/merge.h"
#include "quern/schedule/ranges.h"
#include "quern/schedule/stages.h"

namespace quern {
namespace {

const Rules simplification = [] { return symbolic + reduce_collapse + stage_folding; };

// Copies of old contents are added until the kernels can be put in order: once for each memory at most.
constexpr int kMostRounds = 32;

}  // namespace

Schedule make_schedule(const UOp& sink, const SpecOf& spec_of) {
  check_boundary(sink, Level::tensor, "tensors");
  // functions and tuples, copies, stores, size 0, large reduces
  UOp graph = early_rewrites(sink);
  for (int round = 0; round < kMostRounds; round++) {
    // loops for movement ops, and memory for what is kept
    const Ranges ranges = to_ranges(graph, spec_of);
    if (!ranges.hazards.empty()) {
      graph = with_values_first(graph, ranges.hazards);
      continue;
    }
    // reduces that need no loop, values that need no memory after all
    UOp loops = graph_rewrite(ranges.sink, simplification, {.name = "simplify loops"});
    // kernels with no more buffers than the device allows
    loops = limit_buffers(loops, spec_of);
    // memory for what is kept
    loops = stages_to_stores(loops);
    // one kernel for outputs that read the same, or each other at the same place; kernels cut out, in the
    // order in which they run
    Steps split = split_into_kernels(merge_outputs(forward_values(loops, spec_of), spec_of));
    if (!split.contested.empty()) split = split_into_kernels(loops);
    if (split.contested.empty()) return {std::move(split.steps)};
    graph = with_old_contents_kept(graph, split.contested);
  }
  throw Error("the kernels of this program wait for each other, whatever is copied:\n" + sink.text());
}

}  // namespace quern
