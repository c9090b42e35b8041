// The table of contents of the scheduler: one line a pass.
#include "quern/schedule/schedule.h"

#include <fmt/format.h>

#include <set>

#include "quern/ir/error.h"
#include "quern/ir/movement.h"
#include "quern/ir/node_map.h"
#include "quern/ir/rewrite.h"
#include "quern/ir/spec.h"
#include "quern/ir/symbolic.h"
#include "quern/schedule/collapse.h"
#include "quern/schedule/early.h"
#include "quern/schedule/forward.h"
#include "quern/schedule/functions.h"
#include "quern/schedule/kernels.h"
#include "quern/schedule/limit.h"
#include "quern/schedule/memory_view.h"
#include "quern/schedule/merge.h"
#include "quern/schedule/multi.h"
#include "quern/schedule/ranges.h"
#include "quern/schedule/stages.h"

namespace quern {
namespace {

const Rules simplification = [] { return symbolic + reduce_collapse + stage_folding; };

// Copies of old contents are added until the kernels can be put in order. Copies of all that is overwritten
// always do: each can be made as soon as there is something to copy, and nothing else waits for what was.
constexpr int kFewRounds = 8, kMostRounds = 32;

UOps all_memory(const UOp& graph) {
  UOps all;
  walk(graph, [&](const UOp& u) {
    if (is_memory(u)) all.push_back(u);
  });
  return all;
}

std::vector<Step> with_bodies(std::vector<Step> steps, const UOps& bodies) {
  if (!bodies.empty())
    for (Step& step : steps)
      if (step.program.op() == Op::SINK && step.program.tag().kind() == ArgKind::Int) {
        step.program = bodies.at(static_cast<size_t>(step.program.tag().integer()));
        step.is_call = true;
      }
  return steps;
}

// Of ops that functions of tensors make none can be where it must not. Others may be in what users made of
// nodes, or in kernels of theirs.
bool may_be_illegal(const UOp& sink) {
  return !(sink.ops_below() - legal_ops(Level::tensor)).empty() || sink.ops_below().contains(Op::SLICE);
}

// Which memory stands in the way, and what is stored there.
[[noreturn]] void refuse(const UOp& graph, const Steps& split) {
  std::string text = "no order of the kernels is right, whatever is copied";
  if (!split.circle.empty()) text += fmt::format(": {} wait for each other", fmt::join(split.circle, ", "));
  std::set<std::string> lines;
  for (const UOp& memory : split.contested) {
    std::string line = fmt::format("\n  memory of {} {} on {}", shape_text(memory.shape()),
                                   memory.dtype().name(), fmt::join(memory.device(), "+"));
    walk(graph, [&](const UOp& u) {
      if (u.op() != Op::AFTER || !same(memory_under(base_of(u)), memory)) return;
      for (const UOp& e : u.src().subspan(1))
        line += e.op() == Op::STORE
                    ? fmt::format("; {} is stored as {}", name(e.src(1).op()), shape_text(e.src(0).shape()))
                    : std::string("; a kernel of the user's writes it");
    });
    lines.insert(line);
  }
  for (const std::string& line : lines) text += line;
  throw Error(text);
}

}  // namespace

Schedule make_schedule(const UOp& sink, const SpecOf& spec_of) {
  if (may_be_illegal(sink)) check(sink, Level::tensor);
  check_boundary(sink, Level::tensor, "tensors");
  // functions are inlined, or called as programs of their own
  const WithoutFunctions called = resolve_functions(sink);
  // kernels over the part that each device has
  UOp graph = expand_devices(called.sink);
  // tuples, copies, stores, size 0, large reduces
  graph = early_rewrites(graph);
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
    if (split.contested.empty()) return {with_bodies(std::move(split.steps), called.bodies)};
    const UOp kept = with_old_contents_kept(graph, round < kFewRounds ? split.contested : all_memory(graph));
    if (same(kept, graph) || round + 1 == kMostRounds) refuse(graph, split);
    graph = kept;
  }
  refuse(graph, {});
}

}  // namespace quern
