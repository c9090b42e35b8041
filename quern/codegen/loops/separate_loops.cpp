// Which END closes which RANGE: afterwards exactly one, and one each.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "quern/codegen/loops/loops.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

UOp end(const UOp& effect, const UOp& range) { return UOp::make(Op::END, dtypes::void_, {effect, range}); }

UOp end_of_each_range(const UOp&, Sources now) {
  UOps ranges;
  for (const UOp& s : now.subspan(1))
    for (const UOp& r : s.op() == Op::RANGE ? UOps{s} : s.ranges())
      if (std::ranges::find(ranges, r) == ranges.end()) ranges.push_back(r);
  std::ranges::sort(ranges, before);
  UOp result = now[0];
  for (size_t i = ranges.size(); i-- > 0;) result = end(result, ranges[i]);
  return result;
}

const Rules one_range_each = [] {
  return RuleList{{op(Op::END), end_of_each_range, "an END of several ranges -> one of each"}};
};

bool has_conflicts(const UOp& program) {
  NodeSet closed;
  bool twice = false;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::END) twice |= !closed.insert(u.src(1));
  });
  return twice;
}

// A loop that does nothing but accumulate into registers, or keep something for others.
bool accumulates(const UOp& end) {
  UOps stack{end};
  while (!stack.empty()) {
    const UOp u = std::move(stack.back());
    stack.pop_back();
    if (u.op() == Op::END)
      stack.push_back(u.src(0));
    else if (u.op() == Op::GROUP)
      stack.insert(stack.end(), u.src().begin(), u.src().end());
    else if (u.op() != Op::STORE || u.src(0).dtype().space() == AddrSpace::GLOBAL)
      return false;
  }
  return true;
}

// Accumulations over one range that do not depend on each other are one loop. The level of a node is the
// greatest number of ENDs on a way down from it: ENDs of one level do not depend on each other, and joining
// them by level never makes a circle.
UOp with_accumulations_joined(const UOp& program) {
  const NodeList order = program.toposort();
  NodeMap<int> levels;
  std::vector<std::pair<int, const UOp*>> by_level;  // ENDs first in their level: they depend on lower ones
  for (const UOp& u : order) {
    int level = u.op() == Op::END ? 1 : 0;
    for (const UOp& s : u.src()) level = std::max(level, *levels.find(s) + (u.op() == Op::END ? 1 : 0));
    levels.emplace(u, level);
    by_level.emplace_back(2 * level - (u.op() == Op::END ? 1 : 0), &u);
  }
  std::ranges::stable_sort(by_level, {}, [](const auto& entry) { return entry.first; });

  struct Key {
    int level;
    UOp range;
    UOps open;
    bool operator<(const Key& o) const {
      if (level != o.level) return level < o.level;
      if (!same(range, o.range)) return before(range, o.range);
      return std::ranges::lexicographical_compare(open, o.open, before);
    }
  };
  std::map<Key, UOps> alike;
  for (const UOp& u : order)
    if (u.op() == Op::END && accumulates(u)) alike[{*levels.find(u), u.src(1), u.ranges()}].push_back(u);

  NodeMap<UOp> done;
  for (const auto& [level, node] : by_level) {
    const UOp& u = *node;
    UOps sources;
    for (const UOp& s : u.src()) sources.push_back(*done.find(s));
    UOp now = u.with_src(sources);
    if (u.op() == Op::END && accumulates(u)) {
      const UOps& all = alike.at({*levels.find(u), u.src(1), u.ranges()});
      UOps effects;
      for (const UOp& e : all) {
        const UOp effect = *done.find(e.src(0));
        for (const UOp& part :
             effect.op() == Op::GROUP ? UOps(effect.src().begin(), effect.src().end()) : UOps{effect})
          if (std::ranges::find(effects, part) == effects.end()) effects.push_back(part);
      }
      if (all.size() > 1)
        now =
            end(effects.size() == 1 ? effects[0] : UOp::make(Op::GROUP, dtypes::void_, effects), sources[1]);
    }
    done.emplace(u, std::move(now));
  }
  return *done.find(program);
}

// A RANGE that is closed again gets a new number. What stands in that loop is then another node, and so are
// loops inside of it, which the next round looks at.
struct Numbering {
  int64_t next = 0;
  std::unordered_map<UOp, UOp> closed_by = {};  // the first END that closes a range
};

UOp end_of_own_range(Numbering& c, const UOp& u, Sources sources) {
  const UOp now = u.with_src(sources);
  const auto [first, added] = c.closed_by.emplace(sources[1], now);
  if (added || same(first->second, now)) return now;
  const RangeArg arg = sources[1].arg().range();
  const UOp range = sources[1].replace({.arg = RangeArg{c.next++, arg.kind}});
  return end(sources[0].substitute_open({{sources[1], range}}), range);
}

const Rules ranges_of_their_own = [] {
  return RuleList{{op(Op::END), end_of_own_range, "another END of a range -> the END of a range of its own"}};
};

UOp with_ranges_of_their_own(const UOp& program) {
  Numbering numbering;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::RANGE) numbering.next = std::max(numbering.next, u.arg().range().id + 1);
  });
  return graph_rewrite(program, ranges_of_their_own, numbering,
                       {.order = Order::once, .name = "ranges of their own"});
}

}  // namespace

UOp separate_loops(const UOp& program) {
  UOp result = graph_rewrite(program, one_range_each, {.order = Order::once, .name = "one range each"});
  if (has_conflicts(result)) result = with_accumulations_joined(result);
  while (has_conflicts(result)) result = with_ranges_of_their_own(result);
  return result;
}

namespace {

UOp loop_of_thread(const UOp& u, Sources now) {
  if (u.arg().range().kind != AxisKind::THREAD) return {};
  return u.replace({.src = now, .arg = RangeArg{.id = u.arg().range().id, .kind = AxisKind::LOOP}});
}

}  // namespace

const Rules loops_of_threads = [] {
  return RuleList{{op(Op::RANGE), loop_of_thread, "a THREAD range -> a plain loop"}};
};

UOp inner_threads_to_loops(const UOp& program) {
  UOps threads;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::RANGE && u.arg().range().kind == AxisKind::THREAD) threads.push_back(u);
  });
  const bool by_opts = !program.arg().none() && !program.arg().kernel().opts.empty();
  if (threads.empty() || by_opts) return program;
  if (threads.size() == 1 && program.src().size() == 1 && program.src(0).op() == Op::END &&
      same(program.src(0).src(1), threads[0]))
    return program;
  return graph_rewrite(program, loops_of_threads, {.order = Order::once, .name = "inner threads"});
}

}  // namespace quern
