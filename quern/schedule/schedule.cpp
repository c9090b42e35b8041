// The table of contents of the scheduler: one line a pass.
#include "quern/schedule/schedule.h"

#include "quern/ir/error.h"
#include "quern/ir/rewrite.h"
#include "quern/ir/spec.h"
#include "quern/ir/symbolic.h"
#include "quern/schedule/collapse.h"
#include "quern/schedule/early.h"
#include "quern/schedule/kernels.h"
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
  UOp graph = early_rewrites(sink);  // functions, copies, stores, size 0
  for (int round = 0; round < kMostRounds; round++) {
    const Ranges ranges = to_ranges(graph, spec_of);  // loops, and what is kept
    if (!ranges.hazards.empty()) {
      graph = with_values_first(graph, ranges.hazards);  // stores that read what they write
      continue;
    }
    UOp loops =
        graph_rewrite(ranges.sink, simplification, {.name = "simplify loops"});  // reduces that need no loop
    loops = stages_to_stores(loops);                                             // memory for what is kept
    Steps split = split_into_kernels(loops);                                     // kernels, in order
    if (split.contested.empty()) return {std::move(split.steps)};
    graph = with_old_contents_kept(graph, split.contested);  // reads of what is overwritten
  }
  throw Error("the kernels of this program wait for each other, whatever is copied:\n" + sink.text());
}

}  // namespace quern
