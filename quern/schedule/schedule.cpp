// The table of contents of the scheduler.
#include "quern/schedule/schedule.h"

#include <fmt/format.h>

#include <set>

#include "quern/base/error.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/pass.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/symbolic/symbolic.h"
#include "quern/schedule/canonicalise/early.h"
#include "quern/schedule/canonicalise/functions.h"
#include "quern/schedule/canonicalise/put.h"
#include "quern/schedule/devices/multi.h"
#include "quern/schedule/facts/memory_view.h"
#include "quern/schedule/kernels/forward.h"
#include "quern/schedule/kernels/kernels.h"
#include "quern/schedule/kernels/merge.h"
#include "quern/schedule/ranges/collapse.h"
#include "quern/schedule/ranges/limit.h"
#include "quern/schedule/ranges/ranges.h"
#include "quern/schedule/ranges/stages.h"

namespace quern {
namespace {

// What the passes may ask for, before anything is planned.
struct TensorContext {
  const SpecOf& spec_of;
  UOps* called;  // receives the bodies of functions that are programs of their own
  Needs met = {};
};

// The same in a round: what is planned for the graph as it is now.
struct RoundContext {
  const SpecOf& spec_of;
  const Plan& plan;
  Needs met = {};
};

const Rules simplification = [] { return symbolic + reduce_collapse + stage_folding; };

// clang-format off
const Pass<TensorContext> kTensorPasses[] = {
    {"functions", "schedule/canonicalise/functions", {}, &resolved_functions,
     [](const UOp& u, const TensorContext& c) {
       WithoutFunctions result = resolve_functions(u);
       *c.called = std::move(result.bodies);
       return result.sink;
     },
     "a call is the function's body, or a step of its own"},
    {"puts", "schedule/canonicalise/put", {}, &puts_by_kernels,
     [](const UOp& u, const TensorContext& c) { return put_by_kernels(u, c.spec_of); },
     "what is put into places is put there by a kernel, in the order of the source"},
    {"devices", "schedule/devices/multi", {}, nullptr, [](const UOp& u, const TensorContext&) { return expand_devices(u); },
     "kernels are over the part of each device; what devices exchange are copies"},
    {"canonical", "schedule/canonicalise/early", {}, &early_rewrites, nullptr,
     "no tuples, no copies of constants, no stores of nothing, no tensors of size 0, no reshapes of reshapes; "
     "large reduces are two"},
};
const PassTable<TensorContext> kTensors{"tensors", Level::tensor, kTensorPasses};

const Pass<RoundContext> kLoopPasses[] = {
    {"ranges", "schedule/ranges/ranges", {}, nullptr, [](const UOp&, const RoundContext& c) { return to_ranges(c.plan); },
     "movement ops are index arithmetic on loops; what the plan materialises is a STAGE"},
    {"simplify loops", "schedule/ranges/collapse", {}, &simplification, nullptr,
     "reduces that need no loop have none (`arange`, one-hot sums, counts); values that turned out cheap have no STAGE"},
    {"buffer limit", "schedule/ranges/limit", {}, nullptr,
     [](const UOp& u, const RoundContext& c) { return limit_buffers(u, c.spec_of); },
     "no kernel has more buffers than the device allows"},
    {"memory", "schedule/ranges/stages", {}, &memory_of_stages, [](const UOp& u, const RoundContext&) { return stages_to_stores(u); },
     "a STAGE is a store into a buffer, or into LOCAL memory with a barrier"},
};
const PassTable<RoundContext> kLoops{"loops", std::nullopt, kLoopPasses};

const Pass<RoundContext> kKernelPasses[] = {
    {"forward values", "schedule/kernels/forward", {}, nullptr,
     [](const UOp& u, const RoundContext& c) { return forward_values(u, c.spec_of); },
     "what one kernel stores and another reads at the same place is computed by both"},
    {"merge outputs", "schedule/kernels/merge", {}, nullptr,
     [](const UOp& u, const RoundContext& c) { return merge_outputs(u, c.spec_of); },
     "stores in the same loops that read the same memory are one kernel"},
};
const PassTable<RoundContext> kKernels{"kernels", std::nullopt, kKernelPasses};
// clang-format on

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
      if (step.program.op() == Op::SINK && step.program.hints().body >= 0) {
        step.program = bodies.at(static_cast<size_t>(step.program.hints().body));
        step.is_call = true;
      }
  return steps;
}

// Functions of Tensor make only legal graphs. Ops that they do not make come from nodes or kernels that users
// made: those graphs are checked.
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

std::vector<PassInfo> scheduling_passes() {
  std::vector<PassInfo> all = passes_of(kTensors);
  for (const PassTable<RoundContext>& table : {kLoops, kKernels})
    for (const PassInfo& p : passes_of(table)) all.push_back(p);
  return all;
}

UOp schedule_until(const UOp& sink, const SpecOf& spec_of, std::string_view last) {
  UOps called;
  const UOp graph = run_passes(kTensors, sink, TensorContext{spec_of, &called}, last);
  if (pass_named(kTensors, last)) return graph;
  const Plan plan(graph, spec_of);
  const RoundContext round{spec_of, plan};
  const UOp loops = run_passes(kLoops, graph, round, last);
  return pass_named(kLoops, last) ? loops : run_passes(kKernels, loops, round, last);
}

UOp schedule_by(std::string_view name, const UOp& graph, const SpecOf& spec_of) {
  UOps called;
  if (const auto* pass = pass_named(kTensors, name))
    return run_pass(kTensors, *pass, graph, TensorContext{spec_of, &called});
  const bool is_planned = name == kLoopPasses[0].name;  // the others find all they need in the graph
  const Plan plan(is_planned ? graph : UOp::sink({}), spec_of);
  for (const PassTable<RoundContext>& table : {kLoops, kKernels})
    if (const auto* pass = pass_named(table, name))
      return run_pass(table, *pass, graph, RoundContext{spec_of, plan});
  throw Error(fmt::format("there is no pass \"{}\"", name));
}

Schedule make_schedule(const UOp& sink, const SpecOf& spec_of) {
  if (may_be_illegal(sink)) check(sink, Level::tensor);
  check_boundary(sink, Level::tensor, "tensors");
  UOps called;
  UOp graph = run_passes(kTensors, sink, TensorContext{spec_of, &called});
  for (int round = 0; round < kMostRounds; round++) {
    const Plan plan(graph, spec_of);
    if (const UOps hazards = hazards_of(plan); !hazards.empty()) {
      graph = with_values_first(graph, hazards);
      continue;
    }
    const RoundContext context{spec_of, plan};
    const UOp loops = run_passes(kLoops, graph, context);
    // kernels cut out, in the order in which they run; those that stay apart if joined ones have no order
    Steps split = split_into_kernels(run_passes(kKernels, loops, context));
    if (!split.contested.empty()) split = split_into_kernels(loops);
    if (split.contested.empty()) return {with_bodies(std::move(split.steps), called)};
    const UOp copied =
        with_old_contents_copied(graph, round < kFewRounds ? split.contested : all_memory(graph));
    if (same(copied, graph) || round + 1 == kMostRounds) refuse(graph, split);
    graph = copied;
  }
  refuse(graph, {});
}

}  // namespace quern
