#include "quern/codegen/workgroup/spread_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "quern/codegen/analysis/strides.h"
#include "quern/codegen/workgroup/thread_slots.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

constexpr int64_t kMostThreads = 256, kFewSteps = 16;

int64_t free_number(const UOp& program) {
  int64_t next = 0;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::RANGE) next = std::max(next, u.arg().range().id + 1);
  });
  return next;
}

struct Part {
  UOp value;    // what stands for the range
  UOps closed;  // what is closed instead of it
};

struct Spreading {
  UOp range;
  Part part;
  UOp at_barrier;  // what a BARRIER closes before all threads have met; may be none
};

UOp value_of_loop(const Spreading& s, const UOp& u, Sources) {
  return same(u, s.range) ? s.part.value : UOp();
}

UOp barrier_of_parts(const Spreading& s, const UOp& u, Sources sources) {
  if (!s.at_barrier || !is_open(u, s.range)) return {};
  UOps now;
  for (size_t i = 0; i < sources.size(); i++)
    now.push_back(is_open(u.src(i), s.range) ? UOp::make(Op::END, dtypes::void_, {sources[i], s.at_barrier})
                                             : sources[i]);
  return u.with_src(now);
}

UOp end_of_loop_parts(const Spreading& s, const UOp& u, Sources sources) {
  UOps now;
  for (size_t k = 0; k < sources.size(); k++) {
    if (k >= sources_before_ranges(u) && same(u.src(k), s.range))
      now.insert(now.end(), s.part.closed.begin(), s.part.closed.end());
    else
      now.push_back(sources[k]);
  }
  return u.with_src(now);
}

const Rules spread_loop = [] {
  return RuleList{
      {op(Op::RANGE), value_of_loop, "a loop -> steps of threads"},
      {op(Op::BARRIER), barrier_of_parts, "a BARRIER -> behind the end of the loop over the rest"},
      {op({Op::END, Op::REDUCE}), end_of_loop_parts, "the end of a loop -> of its parts"},
  };
};

UOp replaced(const UOp& program, const UOp& range, const Part& part, const UOp& at_barrier) {
  Spreading spreading{range, part, at_barrier};
  return graph_rewrite(program, spread_loop, spreading, {.order = Order::once, .name = "spread a loop"});
}

// ---- ranges of threads that are too long

UOp split_long_ranges(UOp program, const DeviceSpec& spec) {
  UOps ranges;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::RANGE && is_of_threads(u) && u.src(0).is_int_const() &&
        u.src(0).int_value() > spec.parallel.workgroup)
      ranges.push_back(u);
  });
  int64_t next = free_number(program);
  for (const UOp& r : ranges) {
    const auto size = static_cast<int64_t>(r.src(0).int_value());
    int64_t threads = spec.parallel.workgroup;
    while (size % threads != 0) threads--;
    const RangeArg arg = r.arg().range();
    const UOp outer = UOp::range(size / threads, arg.id,
                                 arg.kind == AxisKind::GROUP_REDUCE ? AxisKind::REDUCE : AxisKind::LOOP);
    const UOp inner = UOp::range(threads, next++, arg.kind);
    program = replaced(program, r, {outer * threads + inner, {outer, inner}}, outer);
  }
  return program;
}

// ---- loops beside barriers

int64_t most_steps(const UOp& range) {
  return static_cast<int64_t>(std::clamp<wide>(range.src(0).vmax(), 1, wide{1} << 40));
}

UOps loops_to_spread(const UOp& program, const UOps& global) {
  const NodeList order = program.toposort();
  UOps around;  // a barrier: the same for all threads
  for (const UOp& u : order)
    if (u.op() == Op::BARRIER)
      for (const UOp& r : u.ranges())
        if (!contains(around, r)) around.push_back(r);
  // Its steps go to different places, so that they can be kept from storing.
  const auto is_in_places = [&](const UOp& r) {
    return std::ranges::all_of(order, [&](const UOp& u) {
      return u.op() != Op::STORE || !is_open(u, r) || is_open(index_of_address(u.src(0)).src(1), r);
    });
  };
  UOps chosen;
  const auto meets_chosen = [&](const UOp& r) {
    return std::ranges::any_of(order, [&](const UOp& u) {
      return is_open(u, r) && std::ranges::any_of(chosen, [&](const UOp& c) { return is_open(u, c); });
    });
  };
  for (const UOp& u : order) {
    if (u.op() != Op::END) continue;
    UOps candidates;
    for (const UOp& r : u.src().subspan(1))
      if (r.op() == Op::RANGE && !contains(global, r) && !contains(around, r) &&
          r.arg().range().kind == AxisKind::LOOP && is_in_places(r))
        candidates.push_back(r);
    // no two of them may be open together
    if (candidates.empty() || std::ranges::any_of(candidates, meets_chosen)) continue;
    std::ranges::sort(candidates, before);
    UOp best = candidates.back();
    for (const UOp& r : candidates)
      if (most_steps(best) < kFewSteps && most_steps(r) > most_steps(best)) best = r;
    chosen.push_back(best);
  }
  return chosen;
}

}  // namespace

UOp spread_loops(const UOp& program, const UOps& global, const DeviceSpec& spec) {
  if (program.ops_below().contains(Op::SPECIAL)) return program;
  bool has_threads = false;
  walk(program, [&](const UOp& u) { has_threads |= u.op() == Op::RANGE && is_of_threads(u); });
  if (has_threads) return split_long_ranges(program, spec);
  if (!program.ops_below().contains(Op::BARRIER)) return program;
  const UOps chosen = loops_to_spread(program, global);
  int64_t threads = 1;
  for (const UOp& r : chosen)
    threads = std::max(
        threads,
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(most_steps(r), kMostThreads)))));
  while (threads > spec.parallel.workgroup) threads /= 2;
  if (threads == 1) return program;
  const UOp thread = UOp::range(threads, free_number(program), AxisKind::LOCAL);
  UOp result = program;
  for (const UOp& r : chosen) {
    const UOp& steps = r.src(0);
    if (most_steps(r) <= threads) {  // threads that are left over do nothing
      const UOp value = steps.equals(threads) ? thread : where(thread < steps, thread, UOp::invalid());
      result = replaced(result, r, {value, {thread}}, {});
      continue;
    }
    const bool even = steps.is_int_const() && steps.int_value() % threads == 0;
    const UOp count = even ? UOp::index(static_cast<int64_t>(steps.int_value()) / threads)
                           : ((steps + (threads - 1)) - thread) / threads;
    const UOp outer = UOp::range(count.simplify(), r.arg().range().id);
    result = replaced(result, r, {outer * threads + thread, {outer, thread}}, {});
  }
  return result;
}

}  // namespace quern
