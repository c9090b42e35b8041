#include "quern/codegen/loops/sum_parts.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

constexpr int64_t kLeastParts = 4;

// Steps in a part: at its end each accumulator is added to another, which is not in a register if there are
// many of them.
constexpr int64_t kLeastInPart = 64, kLeastInPartOfMany = 256;
constexpr int64_t kMany = 512;  // bytes

// Reduces over the same loops.
struct Group {
  UOps loops;  // outermost first
  UOps reduces;
};

int64_t steps_of(const UOps& loops) {
  int64_t all = 1;
  for (const UOp& r : loops) all *= steps(r);
  return all;
}

bool is_plain(const UOp& reduce) {
  const Reduction r(reduce);
  return !r.has_several_values() &&
         std::ranges::all_of(r.ranges, [](const UOp& s) { return s.op() == Op::RANGE; });
}
bool is_sum_of_floats(const UOp& reduce) {
  return reduce.arg().reduce().op == Op::ADD && reduce.dtype().is_float();
}

// Groups in whose loops is nothing else: parted, they would no longer be one with that.
std::vector<Group> groups_in(const UOp& program) {
  std::vector<Group> groups;
  NodeSet taken, twice;
  const auto take = [&](const UOp& range) {
    if (!taken.insert(range)) twice.insert(range);
  };
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::END || u.op() == Op::AFTER || (u.op() == Op::REDUCE && !is_plain(u)))
      for (const UOp& s : u.src())
        if (s.op() == Op::RANGE) twice.insert(s);
    if (u.op() != Op::REDUCE || !is_plain(u)) return;
    const Sources ranges = Reduction(u).ranges;
    UOps loops(ranges.begin(), ranges.end());
    std::ranges::sort(loops, before);
    auto group = std::ranges::find(groups, loops, &Group::loops);
    if (group == groups.end()) {
      for (const UOp& r : loops) take(r);
      group = groups.insert(groups.end(), {loops, {}});
    }
    group->reduces.push_back(u);
  });
  std::erase_if(groups, [&](const Group& g) {
    return std::ranges::any_of(g.loops, [&](const UOp& r) { return twice.contains(r); });
  });
  return groups;
}

// How many values a step adds one after the other.
int64_t values_of_a_step(const Group& group) {
  int64_t most = 1;
  for (const UOp& u : group.reduces)
    most = std::max<int64_t>(most, Reduction(u).value().dtype().lanes() / u.dtype().lanes());
  return most;
}

// The shortest part that is no shorter than there are parts: `amount` steps of a loop, and all of those
// inside of it. An amount of 0: there is none.
struct Cut {
  size_t loop = 0;
  int64_t amount = 0;
};
Cut cut(const UOps& loops, int64_t in_a_step, int64_t least) {
  const int64_t all = steps_of(loops) * in_a_step;
  if (all < kLeastParts * least) return {};  // or not known
  int64_t inside = in_a_step;
  for (size_t loop = loops.size(); loop-- > 0;) {
    const int64_t here = steps(loops[loop]);
    for (int64_t amount = 1; amount <= here; amount++) {
      const int64_t part = inside * amount;
      if (here % amount != 0 || part < std::max(least, all / part)) continue;
      return all / part >= kLeastParts ? Cut{loop, amount} : Cut{};
    }
    inside *= here;
  }
  return {};
}

// A loop whose numbers are twice as large, so that there are some between them for its parts.
UOp renumbered(const UOp& range) {
  const RangeArg arg = range.arg().range();
  return range.replace({.arg = RangeArg{2 * arg.id, arg.kind}});
}

// What becomes of the loops of a group.
struct Parts {
  UOps outer, inner;
};
Parts part(const UOps& loops, const Cut& at, std::unordered_map<UOp, UOp>& changed) {
  Parts parts;
  for (size_t i = 0; i < loops.size(); i++)
    (i < at.loop ? parts.outer : parts.inner).push_back(renumbered(loops[i]));
  const UOp& r = loops[at.loop];
  if (at.amount == steps(r)) return parts;
  const RangeArg arg = r.arg().range();
  const UOp outer = UOp::range(steps(r) / at.amount, 2 * arg.id, arg.kind);
  const UOp inner = UOp::range(at.amount, 2 * arg.id + 1, arg.kind);
  parts.outer.push_back(outer);
  parts.inner[0] = inner;
  changed.emplace(r, outer * at.amount + inner);
  return parts;
}

UOp reduce(const UOp& like, const UOp& value, const UOps& loops) {
  UOps sources{value};
  sources.insert(sources.end(), loops.begin(), loops.end());
  return like.with_src(sources);
}

struct Parting {
  std::unordered_map<UOp, UOp> changed;     // loops of which some steps are in a part
  std::unordered_map<UOp, Parts> parts_of;  // of reduces
};

UOp loop_beside_parts(const Parting& c, const UOp& u, Sources now) {
  const auto found = c.changed.find(u);
  return found != c.changed.end() ? found->second : renumbered(u.with_src(now));
}

UOp reduce_of_parts(const Parting& c, const UOp& u, Sources now) {
  const auto found = c.parts_of.find(u);
  if (found == c.parts_of.end()) return {};
  return reduce(u, reduce(u, now[0], found->second.inner), found->second.outer);
}

}  // namespace

const Rules parted_sums = [] {
  return RuleList{
      {op(Op::RANGE), loop_beside_parts, "a loop of a long sum -> a loop over parts, and one in a part"},
      {op(Op::REDUCE), reduce_of_parts, "a long sum -> a sum of sums"},
  };
};

UOp sums_in_parts(const UOp& program) {
  if (!program.ops_below().contains(Op::REDUCE)) return program;
  Parting parting;
  for (const Group& g : groups_in(program)) {
    if (std::ranges::none_of(g.reduces, is_sum_of_floats)) continue;
    int64_t bytes_of_sums = 0;
    for (const UOp& u : g.reduces) bytes_of_sums += u.dtype().bytes();
    const Cut at =
        cut(g.loops, values_of_a_step(g), bytes_of_sums < kMany ? kLeastInPart : kLeastInPartOfMany);
    if (at.amount == 0) continue;
    const Parts parts = part(g.loops, at, parting.changed);
    for (const UOp& u : g.reduces) parting.parts_of.emplace(u, parts);
  }
  if (parting.parts_of.empty()) return program;
  const UOp parted =
      graph_rewrite(program, parted_sums, parting, {.order = Order::once, .name = "sums in parts"});
  return graph_rewrite(parted, symbolic, {.name = "simplify sums in parts"});
}

}  // namespace quern
