#include "quern/codegen/loops/loops.h"

#include <algorithm>
#include <unordered_map>

#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

// ---- loops that are one

bool has(const UOps& ranges, const UOp& range) { return std::ranges::find(ranges, range) != ranges.end(); }

int64_t divisions_below(const UOp& u) {
  int64_t count = 0;
  walk(u, [&](const UOp& n) { count += n.op() == Op::FLOORDIV || n.op() == Op::FLOORMOD ? 1 : 0; });
  return count;
}

// Two loops of one END or REDUCE, and what becomes of their body when they are one. Only what is computed in
// these loops is looked at.
class Joining {
 public:
  Joining(const UOp& outer, const UOp& inner, const UOp& one)
      : outer_(outer), inner_(inner), map_{{outer, one / inner.src(0)}, {inner, one % inner.src(0)}} {}

  UOp body(const UOp& root) {
    walk(
        root, [&](const UOp& u) { return is_inside(u); },
        [&](const UOp& u) { done_.emplace(u, rebuilt(u)); });
    return *done_.find(root);
  }

  // Index arithmetic has become no worse, and nothing is computed more often, or stands between the loops.
  bool pays() const { return separable_ && divisions_ <= 0; }

 private:
  bool is_inside(const UOp& u) const { return has(u.ranges(), outer_) || has(u.ranges(), inner_); }

  UOp rebuilt(const UOp& u) {
    if (!is_inside(u)) return u;
    if (const auto found = map_.find(u); found != map_.end()) return found->second;
    if (u.op() == Op::REDUCE || u.op() == Op::END || u.op() == Op::BARRIER)
      separable_ &= has(u.ranges(), outer_) && has(u.ranges(), inner_);
    UOps sources;
    for (const UOp& s : u.src()) {
      UOp now = *done_.find(s);
      if (s.dtype().is_index() && !u.dtype().is_index() && !same(now, s)) {  // a whole index expression
        now = now.simplify();
        divisions_ += divisions_below(now) - divisions_below(s);
      }
      sources.push_back(std::move(now));
    }
    return u.with_src(sources);
  }

  const UOp outer_, inner_;
  const std::unordered_map<UOp, UOp> map_;
  NodeMap<UOp> done_;
  int64_t divisions_ = 0;
  bool separable_ = true;
};

// The loop node with ranges i and i + 1 joined, or none.
UOp joined(const UOp& u, size_t i) {
  const UOp &outer = u.src(i), &inner = u.src(i + 1);
  const RangeArg a = outer.arg().range(), b = inner.arg().range();
  if (a.kind != b.kind || a.id >= b.id || !outer.src(0).is_int_const() || !inner.src(0).is_int_const())
    return {};
  const wide steps = outer.src(0).int_value() * inner.src(0).int_value();
  if (!fits(dtypes::int32, steps)) return {};
  const UOp one = UOp::range(static_cast<int64_t>(steps), a.id, a.kind);
  UOps sources;
  for (size_t k = 0; k < u.src().size(); k++) {
    if (k == i + 1) continue;
    sources.push_back(k == i ? one : u.src(k));
    if (k >= sources_before_ranges(u)) continue;
    Joining joining(outer, inner, one);
    sources.back() = joining.body(u.src(k));
    if (!joining.pays()) return {};
  }
  return u.with_src(sources);
}

// ---- kinds of loops

bool is_local(const UOp& range) {
  const AxisKind kind = range.arg().range().kind;
  return kind == AxisKind::LOCAL || kind == AxisKind::WARP;
}

struct Kinds {
  bool workgroups;  // does the device run them?
};
AxisKind kind_on(AxisKind kind, bool workgroups) {
  switch (kind) {
    case AxisKind::UPCAST: return AxisKind::LOOP;
    case AxisKind::UNROLL:
    case AxisKind::GROUP_REDUCE: return AxisKind::REDUCE;
    case AxisKind::GLOBAL:
    case AxisKind::LOCAL:
    case AxisKind::WARP: return workgroups ? kind : AxisKind::LOOP;
    default: return kind;
  }
}

UOp loop_of_kind(const Kinds& kinds, const UOp& u, Sources now) {
  const RangeArg arg = u.arg().range();
  return UOp::make(Op::RANGE, u.dtype(), now, RangeArg{arg.id, kind_on(arg.kind, kinds.workgroups)});
}

bool writes_register(const UOp& effect) {
  bool found = false;
  walk(
      effect, [](const UOp& u) { return u.op() != Op::BARRIER; },
      [&](const UOp& u) {
        found |=
            u.op() == Op::STORE && u.src(0).dtype().is_ptr() && u.src(0).dtype().space() == AddrSpace::REG;
      });
  return found;
}

// Threads are steps of a loop: what they do before the barrier is a loop, and what follows is another.
UOp barrier_to_loop(const UOp&, Sources effects) {
  if (effects.empty()) return {};
  UOps closed{effects.size() == 1 ? effects[0] : UOp::make(Op::GROUP, dtypes::void_, effects)};
  for (const UOp& r : closed[0].ranges())
    if (is_local(r)) closed.push_back(r);
  if (closed.size() > 1 && writes_register(closed[0]))
    throw Error("kernel: registers that are kept across a BARRIER need a device with workgroups");
  return closed.size() == 1 ? closed[0] : UOp::make(Op::END, dtypes::void_, closed);
}

// ---- loops of threads

constexpr int64_t kPartsOfThread = 4;     // so that none waits long for the last
constexpr double kStepsOfThread = 32768;  // nodes that run in the time in which threads are woken

// The loop around all of the kernel, if its steps are said to be independent of each other.
UOp independent_loop(const UOp& program) {
  if (program.src().size() != 1 || program.src(0).op() != Op::END) return {};
  for (const UOp& r : program.src(0).src().subspan(1))
    if (r.op() == Op::RANGE && r.arg().range().kind == AxisKind::GLOBAL && r.src(0).ranges().empty())
      return r;
  return {};
}

double steps_of(const UOp& program) {
  double steps = 0;
  walk(program, [&](const UOp& u) {
    if (!is_elementwise(u.op()) && u.op() != Op::LOAD && u.op() != Op::STORE) return;
    double times = 1;
    for (const UOp& r : u.ranges()) times *= std::max(1.0, static_cast<double>(r.src(0).vmax()));
    steps += times;
  });
  return steps;
}

// GLOBAL n  ->  THREAD t around a loop over its share.
struct Shares {
  UOp range, thread, step;
  int64_t share;
};

UOp step_of_thread(const Shares& s, const UOp& u, Sources) {
  return same(u, s.range) ? s.thread * s.share + s.step : UOp();
}

UOp around_thread(const Shares& s, const UOp& u, Sources now) {
  if (std::ranges::find(u.src(), s.range) == u.src().end()) return {};
  UOps closed;
  for (size_t i = 0; i < now.size(); i++) {
    if (!same(u.src(i), s.range))
      closed.push_back(now[i]);
    else
      closed.insert(closed.end(), {s.thread, s.step});
  }
  return u.with_src(closed);
}

// ---- loops that are one, in a program

struct Merging {
  OpSet of;
  std::unordered_map<UOp, int> closers;  // how many loop nodes close a range

  bool alone(const UOp& r) const {
    const auto found = closers.find(r);
    return r.op() == Op::RANGE && (found == closers.end() || found->second == 1);
  }
};

UOp with_loops_merged(const Merging& merging, const UOp& u, Sources now) {
  if (!merging.of.contains(u.op())) return {};
  UOp result = u.with_src(now);
  for (size_t i = sources_before_ranges(result); i + 1 < result.src().size();) {
    const bool alone = merging.alone(result.src(i)) && merging.alone(result.src(i + 1));
    if (const UOp one = alone ? joined(result, i) : UOp())
      result = one;
    else
      i++;
  }
  return result;
}

}  // namespace

const Rules merged_loops = [] {
  return RuleList{{op({Op::END, Op::REDUCE}), with_loops_merged, "loops that are used as one -> one"}};
};

const Rules barriers_to_loops = [] {
  return RuleList{{op(Op::BARRIER), barrier_to_loop, "a BARRIER -> the end of a loop over the threads"}};
};

const Rules thread_loops = [] {
  return RuleList{
      {op(Op::RANGE), step_of_thread, "a GLOBAL range -> a thread's share and a step of it"},
      {op({Op::END, Op::AFTER}), around_thread, "the end of the range -> of both"},
  };
};

const Rules plain_kinds = [] {
  return RuleList{{op(Op::RANGE), loop_of_kind, "a kind that the device does not have -> a plain loop"}};
};

UOp spread_over_threads(const UOp& program, const DeviceSpec& spec) {
  const UOp range = independent_loop(program);
  if (!range || !range.src(0).is_int_const()) return program;
  bool has_threads = false;
  int64_t next = 0;
  walk(program, [&](const UOp& u) {
    if (u.op() != Op::RANGE) return;
    has_threads |= u.arg().range().kind == AxisKind::THREAD;
    next = std::max(next, u.arg().range().id + 1);
  });
  const auto n = static_cast<int64_t>(range.src(0).int_value());
  const double work = steps_of(program) / kStepsOfThread;
  const int64_t parts =
      std::min({n, spec.parallel.cores * kPartsOfThread, static_cast<int64_t>(std::min(work, 1e9))});
  if (has_threads || spec.parallel.cores < 2 || parts < 2) return program;
  const int64_t share = (n + parts - 1) / parts, threads = (n + share - 1) / share;
  const UOp thread = UOp::range(threads, range.arg().range().id, AxisKind::THREAD);
  const UOp count = n % share == 0 ? UOp::index(share) : quern::min(UOp::index(share), n - thread * share);
  Shares shares{range, thread, UOp::range(count, next), share};
  return graph_rewrite(program, thread_loops, shares, {.order = Order::once, .name = "threads"});
}

UOp simplify_loops(const UOp& program, OpSet of, std::string_view name) {
  Merging merging{of, {}};
  walk(program, [&](const UOp& u) {
    if (u.op() != Op::END && u.op() != Op::REDUCE) return;
    for (const UOp& r : closed_ranges(u)) merging.closers[r]++;
  });
  return graph_rewrite(program, merged_loops, merging, {.order = Order::once, .name = name});
}

UOp kinds_to_loops(const UOp& program, const DeviceSpec& spec) {
  Kinds kinds{spec.has_workgroups()};
  return graph_rewrite(program, plain_kinds, kinds, {.order = Order::once, .name = "kinds"});
}

}  // namespace quern
