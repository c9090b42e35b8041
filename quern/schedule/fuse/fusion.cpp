#include "quern/schedule/fuse/fusion.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/base/env.h"
#include "quern/ir/shape/movement.h"

namespace quern {
namespace {

constexpr int64_t kRepeatedOps = 32;   // more than this many operations are not done again for another user
constexpr int64_t kRepeatedLoads = 3;  // nor are more loads than this
constexpr int64_t kOpsInLoop =
    12;  // nor, in a loop that does not change the value, more operations than this, or a function
constexpr int64_t kAnyOps = int64_t{1} << 62;
constexpr int64_t kFewTimes = 8;      // unless the loop is short
constexpr int64_t kLongAgain = 64;    // steps of a reduce that are not done even twice, inside of another
constexpr int64_t kLongReduce = 512;  // steps of a reduce next to which a store and a load are nothing
constexpr int64_t kSmallOutput =
    16384;  // work for one workgroup: it is done before a second kernel would start
constexpr int64_t kSmallInput = 1 << 20;  // bytes

using RangeSet = UOps;  // in structural order

bool has(const RangeSet& set, const UOp& r) { return std::ranges::binary_search(set, r, before); }
void add(RangeSet& set, const UOp& r) {
  const auto at = std::ranges::lower_bound(set, r, before);
  if (at == set.end() || !same(*at, r)) set.insert(at, r);
}
RangeSet minus(const RangeSet& a, const RangeSet& b) {
  RangeSet r;
  for (const UOp& x : a)
    if (!has(b, x)) r.push_back(x);
  return r;
}
bool within(const RangeSet& a, const RangeSet& b) {
  return std::ranges::all_of(a, [&](const UOp& x) { return has(b, x); });
}

RangeSet ranges_in(const Use& use, uint64_t axes) {
  RangeSet found;
  for (size_t i = 0; i < use.index.size(); i++)
    if ((axes >> std::min<size_t>(i, 63) & 1) != 0)
      for (const UOp& r : use.index[i].ranges()) add(found, r);
  return found;
}

class Decision {
 public:
  explicit Decision(const Question& q) : q_(q) {}

  Verdict run() {
    Verdict v = q_.facts.contains_reduce ? with_reduce() : without_reduce();
    if (v.memory == NodePlan::Memory::none || env::PCONTIG() == 0 || !q_.facts.contains_reduce) return v;
    if (Verdict in_local = local(v.reason); in_local.memory == NodePlan::Memory::local)
      return in_local;
    else
      v.reason = in_local.reason;
    return v;
  }

 private:
  const Scope& scope(const Use& use) const { return q_.plan.scopes[static_cast<size_t>(use.scope)]; }
  const Nest& nest(const Use& use) const { return q_.plan.nests[static_cast<size_t>(scope(use).nest)]; }
  bool in_one_nest() const {
    return std::ranges::all_of(q_.uses,
                               [&](const Use& u) { return scope(u).nest == scope(q_.uses[0]).nest; });
  }
  static Verdict materialise(std::string why) {
    return {.memory = NodePlan::Memory::global, .reason = std::move(why), .loops_around = {}, .axes = {}};
  }

  bool is_picked(const UOp& range) const { return q_.plan.picked.contains(range); }
  // Is what has these ranges a table that an index picks from? (A comparison with the index also has
  // the picked range, but it has the ranges of the index, too.)
  bool is_table(const RangeSet& own) const {
    return std::ranges::any_of(own, [&](const UOp& r) {
      const auto found = q_.plan.picked.find(r);
      return found != q_.plan.picked.end() &&
             !std::ranges::all_of(found->second, [&](const UOp& i) { return has(own, i); });
    });
  }
  int64_t iterations(const RangeSet& set) const {
    UOps sizes;
    for (const UOp& r : set)
      if (!is_picked(r)) sizes.push_back(r.src(0));
    return elements_at_most(sizes);
  }

  // Is the kernel done before a second one would start?
  bool is_small() const {
    const Nest& n = nest(q_.uses[0]);
    return iterations(n.ranges) <= kSmallOutput && n.bytes <= kSmallInput;
  }

  int64_t elements_on(uint64_t axes) const {
    UOps sizes;
    const UOps& shape = q_.node.shape();
    for (size_t i = 0; i < shape.size(); i++)
      if ((axes >> std::min<size_t>(i, 63) & 1) != 0) sizes.push_back(shape[i]);
    return std::max<int64_t>(elements_at_most(sizes), 1);
  }

  bool is_reduce(const UOp& loop) const {
    return loop.arg().range().kind == AxisKind::REDUCE && !is_picked(loop);
  }
  bool in_reduce(const RangeSet& loops) const {
    return std::ranges::any_of(loops, [&](const UOp& r) { return is_reduce(r); });
  }

  // Operations that the loops around a use would do again for the same element: many of them, or a function
  // in the loops of a reduce (elsewhere they stand outside of the other loops).
  Verdict in_loops(int64_t most_operations) const {
    const Facts& f = q_.facts;
    for (const Use& use : q_.uses) {
      const RangeSet own = ranges_in(use, ~uint64_t{0});
      RangeSet unchanged = minus(scope(use).loops, own);
      std::erase_if(unchanged, [&](const UOp& r) {
        return is_reduce(r) || is_picked(r);
      });  // loops of reduces can stand inside the others; a picked range is no loop
      int64_t times = iterations(unchanged);
      const bool picked = is_table(own);
      if (picked)  // the loops around the index say how many elements are read, of those that there are
        times = iterations(scope(use).loops) / elements_on(~uint64_t{0});
      const bool repeats = f.functions && in_reduce(own);
      if (repeats && !picked)  // steps of a reduce may come to the same element, as those of windows do
        times = std::max(times, iterations(own) / elements_on(~uint64_t{0}));
      if ((f.cost <= most_operations && !repeats) || times <= kFewTimes) continue;
      Verdict v = materialise(fmt::format("{} operations would be done {} times", f.cost, times));
      v.removable = !repeats;
      return v;
    }
    return {};
  }

  Verdict without_reduce() const {
    const Facts& f = q_.facts;
    if (Verdict v = in_loops(kOpsInLoop); v.memory != NodePlan::Memory::none) return v;
    const int64_t again = std::ssize(q_.uses) - 1;
    if (again > 0 && f.cost > 0) {
      if (again * f.cost > kRepeatedOps)
        return materialise(fmt::format("{} operations would be done {} times", f.cost, again + 1));
      if (f.loads > kRepeatedLoads)
        return materialise(fmt::format("{} loads would be done {} times", f.loads, again + 1));
    }
    return {};
  }

  // The reduces below are computed once if all uses agree on the axes that they depend on, and if the loops
  // can be ordered so that the others are inside.
  Verdict with_reduce() const {
    if (!in_one_nest()) return materialise("used by several kernels: the reduce would be computed in each");
    const uint64_t axes = q_.facts.reduce_axes;
    const Use& first = q_.uses[0];
    for (const Use& use : q_.uses) {
      const RangeSet own = ranges_in(use, ~uint64_t{0});
      if (is_table(own)) return materialise("an index picks elements of it, and it has a reduce");
      if (std::ranges::any_of(scope(use).loops, [&](const UOp& r) { return is_picked(r) && !has(own, r); }))
        return materialise("it has a reduce, and elements are picked by it");
    }
    for (const Use& use : q_.uses)
      for (size_t i = 0; i < use.index.size(); i++)
        if ((axes >> std::min<size_t>(i, 63) & 1) != 0 && !same(use.index[i], first.index[i]))
          return materialise(fmt::format("the reduce would be computed {} times", q_.uses.size()));
    if (Verdict v = in_loops(kAnyOps); v.memory != NodePlan::Memory::none) return v;
    Verdict v;
    v.loops_around = ranges_in(first, axes);
    const bool reducing = in_reduce(v.loops_around);
    // Several steps of the loops around may come to the same element, as those of windows that overlap do.
    const int64_t times = iterations(v.loops_around) / elements_on(axes), steps = q_.facts.steps;
    if ((times > 2 && (times - 1) * steps > kRepeatedOps) || (times > 1 && reducing && steps > kLongAgain))
      return materialise(fmt::format("the reduce of {} steps would be computed {} times", steps, times));
    bool ended = false;  // is it used in a loop that it does not depend on, outside of which it has to stand?
    for (const Use& use : q_.uses) ended |= !minus(scope(use).loops, ranges_in(use, ~uint64_t{0})).empty();
    if (!ended) {
      // A long reduce in each step of another's loops: by itself its own can be ordered, cut and tiled.
      if (steps >= kLongReduce && !is_small() && within(scope(first).loops, v.loops_around) && reducing)
        return materialise(fmt::format("a reduce of {} steps inside another", steps));
      return v;
    }
    RangeSet repeated;
    for (const UOp& r : v.loops_around)
      if (const auto outer = q_.outer_of.find(r); outer != q_.outer_of.end())
        for (const UOp& o : minus(outer->second, v.loops_around)) add(repeated, o);
    if (!repeated.empty())
      return materialise(fmt::format("the reduce would be computed {} times", iterations(repeated)));
    if (const std::string why = why_not_in(v.loops_around); !why.empty()) return materialise(why);
    return v;
  }

  // Can reduces stand in these loops of the nest, outside of its others? An empty answer is yes.
  std::string why_not_in(const RangeSet& loops) const {
    const Nest& n = nest(q_.uses[0]);
    RangeSet outputs;
    for (const UOp& r : loops)
      if (has(n.ranges, r)) outputs.push_back(r);
    for (const UOps& other : n.reduce_scopes)
      if (!within(other, outputs) && !within(outputs, other))
        return "out-of-order ranges: no order of the loops has all reduces outside of what uses them";
    const int64_t outer = iterations(outputs), all = iterations(n.ranges);
    if (outer < all && outer < n.spec->parallel_iterations() && !is_small())
      return fmt::format("too little outer parallelism: {} outer iterations, the device runs {} at once",
                         outer, n.spec->parallel_iterations());
    return {};
  }

  // Memory of a workgroup for the axes on which uses differ or that run in a reduce.
  Verdict local(const std::string& why) const {
    Verdict v = materialise(why);
    auto refuse = [&](const std::string& reason) {
      v.reason = fmt::format("{}; not in LOCAL memory: {}", why, reason);
      return v;
    };
    if (!in_one_nest()) return v;
    const Use& first = q_.uses[0];
    const Nest& n = nest(first);
    if (n.spec->memory.group_bytes == 0) return v;
    int64_t elements = 1;
    RangeSet around;
    std::vector<size_t> axes;
    const UOps& shape = q_.node.shape();
    for (size_t i = 0; i < shape.size(); i++) {
      if (shape[i].equals(1)) continue;
      bool shared = true;
      for (const Use& use : q_.uses) shared &= same(use.index[i], first.index[i]);
      for (const UOp& r : first.index[i].ranges()) shared &= has(n.ranges, r);
      if (shared) {
        for (const UOp& r : first.index[i].ranges()) add(around, r);
      } else if (!shape[i].is_int_const()) {
        return refuse("its size is symbolic");
      } else {
        axes.push_back(i);
        elements = elements_at_most(UOps{UOp::index(elements), shape[i]});
      }
    }
    if (axes.empty()) return v;
    if (const std::string not_there = why_not_in(around); !not_there.empty()) return refuse(not_there);
    const int64_t bytes = elements * q_.node.dtype().bytes(),
                  left = n.spec->memory.group_bytes - n.local_bytes;
    if (bytes > left) return refuse(fmt::format("LOCAL budget: {} bytes, {} are left", bytes, left));
    if (env::PCONTIG() < 2 && q_.facts.bytes > n.spec->memory.l2_bytes)
      return refuse(
          fmt::format("every workgroup would read what does not fit in the cache, {} bytes", q_.facts.bytes));
    v.memory = NodePlan::Memory::local;
    v.reason = why;
    v.loops_around = std::move(around);
    v.axes = std::move(axes);
    return v;
  }

  const Question& q_;
};

}  // namespace

Verdict decide(const Question& question) { return Decision(question).run(); }

}  // namespace quern
