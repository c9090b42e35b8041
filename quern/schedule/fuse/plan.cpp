#include "quern/schedule/fuse/plan.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "quern/base/error.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/memory_view.h"
#include "quern/schedule/facts/movement_index.h"
#include "quern/schedule/facts/picks.h"
#include "quern/schedule/facts/wanted.h"
#include "quern/schedule/fuse/fusion.h"

namespace quern {
namespace {

class Planner {
 public:
  Planner(Plan& plan, const SpecOf& spec_of)
      : plan_(plan), spec_of_(spec_of), facts_(plan.order), outer_of_(before) {}

  void run() {
    uint32_t position = 0;
    for (const UOp& u : plan_.order) plan_.position.emplace(u, position++);
    plan_.nodes.resize(position);
    for (const UOp& u : std::views::reverse(plan_.order)) visit(u, plan_.of(u));
  }

 private:
  void visit(const UOp& u, NodePlan& node) {
    switch (u.op()) {
      case Op::STORE: return visit_store(u, node);
      case Op::COPY:
      case Op::MSELECT:
      case Op::MSTACK:
        for (const UOp& s : u.src())
          if (s.op() != Op::DEVICE) want_in_memory(s);
        return;
      case Op::CALL:
        for (const UOp& argument : u.src().subspan(1)) want_in_memory(argument);
        return;
      case Op::AFTER: return visit_after(u, node);
      case Op::CONTIGUOUS:
        return materialise_whole(u, node,
                                 u.hints().reason.empty() ? "the user asked for it" : u.hints().reason);
      case Op::REDUCE:
      case Op::IOTA: break;
      default:
        if (!is_elementwise(u.op()) && !is_movement(u.op()) && u.op() != Op::DETACH &&
            u.op() != Op::CONTIGUOUS_BACKWARD && u.op() != Op::NOOP)
          return;
    }
    if (node.wanted_in_memory)
      return materialise_whole(u, node, "a copy or a kernel of the user's needs it in memory");
    if (node.uses.empty()) return;  // not a value that anything computes
    if (is_movement(u.op())) return visit_movement(u, node);
    Verdict verdict = decide({u, facts_[u], node.uses, plan_, outer_of_});
    switch (verdict.memory) {
      case NodePlan::Memory::global:
        if (is_padding(u)) break;  // what is inside is less to materialise, and it is asked for next
        return materialise(u, node, verdict.reason, verdict.removable);
      case NodePlan::Memory::local: return materialise_local(u, node, std::move(verdict));
      case NodePlan::Memory::none: break;
    }
    for (size_t i = 0; i < node.uses.size(); i++) {
      const Use use = node.uses[i];
      if (u.op() == Op::REDUCE)
        visit_reduce(u, node, use, verdict.loops_around);
      else
        node.source_uses.push_back(pass_on(u, use));
    }
  }

  // A value with a constant around it.
  bool is_padding(const UOp& u) const {
    return u.op() == Op::WHERE && u.src(1).op() == Op::PAD && base_of(u.src(2)).is_const() &&
           facts_[u.src(0)].loads == 0 && !facts_[u.src(0)].contains_reduce;
  }

  void visit_store(const UOp& u, NodePlan& node) {
    if (u.src(1).op() == Op::COPY) {
      const auto view = contiguous_view(u.src(0));
      if (view && view->offset.is_int_const()) return;  // it is copied there
    }
    node.nest = open_nest(u.src(0).shape(), facts_[u].device, facts_[u.src(1)].bytes);
    plan_.of(base_of(u.src(0))).overwritten = true;
    const Use use{plan_.nests.back().index, open_scope(node.nest, plan_.nests.back().ranges)};
    node.source_uses.push_back({add_use(u.src(0), use), add_use(u.src(1), use)});
  }

  // What was just stored need not be read back when it is easily computed: the two kernels can then be one.
  void visit_after(const UOp& u, NodePlan& node) {
    if (node.overwritten || node.uses.empty() || u.src().size() != 2 || u.src(1).op() != Op::STORE) return;
    const UOp &target = u.src(1).src(0), &value = u.src(1).src(1);
    const Facts& f = facts_[value];
    if (f.contains_reduce || f.cost > kForwardedOps || f.loads > kForwardedLoads || value.op() == Op::COPY)
      return;
    if (!same(base_of(target), u.src(0)) || !is_whole_memory(target)) return;
    node.forwarded = true;
    UOps sources{value};
    sources.insert(sources.end(), u.shape().begin(), u.shape().end());
    const UOp as_memory = UOp::make(Op::RESHAPE, u.dtype(), sources);
    for (size_t i = 0; i < node.uses.size(); i++) {
      const Use use = node.uses[i];
      node.source_uses.push_back({add_use(value, {source_index(as_memory, use.index).index, use.scope})});
    }
  }
  static constexpr int64_t kForwardedOps = 24, kForwardedLoads = 4;

  void visit_movement(const UOp& u, NodePlan& node) {
    for (size_t i = 0; i < node.uses.size(); i++) {
      const Use use = node.uses[i];
      node.source_uses.push_back({add_use(u.src(0), {source_index(u, use.index).index, use.scope})});
    }
  }

  void visit_reduce(const UOp& u, NodePlan& node, const Use& use, const UOps& loops_around) {
    const Scope around = plan_.scopes[static_cast<size_t>(use.scope)];
    const UOp& x = Reduction(u).value();
    Use inner{use.index, -1};
    UOps opened, loops = loops_around;
    for (int64_t axis : u.arg().reduce().axes) {
      const auto i = static_cast<size_t>(axis);
      const UOp range = UOp::range(x.shape()[i].simplify(), plan_.next_range++, AxisKind::REDUCE);
      inner.index[i] = range;
      opened.push_back(range);
      outer_of_.emplace(range, loops_around);
      loops.push_back(range);
    }
    for (const Pick& pick : picks_of(u)) {
      UOps& depends = plan_.picked[inner.index[pick.axis]];
      for (size_t i = 0; i < inner.index.size(); i++)
        if ((pick.index_axes & axis_bit(i)) != 0)
          for (const UOp& r : inner.index[i].ranges()) depends.push_back(r);
    }
    std::ranges::sort(loops, before);
    add_reduce_scope(around.nest, loops_around);
    inner.scope = open_scope(around.nest, std::move(loops));
    node.source_uses.push_back({add_use(x, inner)});
    node.reduced.push_back(std::move(opened));
  }

  // Of an elementwise op, or one that changes nothing. An IOTA passes no use on: its value is the index.
  SmallVector<uint32_t, 3> pass_on(const UOp& u, const Use& use) {
    SmallVector<uint32_t, 3> positions;
    const size_t count = is_elementwise(u.op()) ? u.src().size() : u.op() == Op::IOTA ? 0 : 1;
    for (const UOp& s : u.src().first(count)) positions.push_back(add_use(s, use));
    return positions;
  }

  void compute(const UOp& u, NodePlan& node, const Use& use, const UOps& loops_around) {
    if (u.op() == Op::REDUCE)
      visit_reduce(u, node, use, loops_around);
    else if (is_movement(u.op()))
      node.source_uses.push_back({add_use(u.src(0), {source_index(u, use.index).index, use.scope})});
    else
      node.source_uses.push_back(pass_on(u, use));
  }

  void materialise(const UOp& u, NodePlan& node, std::string reason, bool removable) {
    node.memory = NodePlan::Memory::global;
    node.reason = std::move(reason);
    node.removable = removable;
    UOp device = facts_[u].device;
    if (!device && !node.uses.empty())
      device =
          plan_.nests[static_cast<size_t>(plan_.scopes[static_cast<size_t>(node.uses[0].scope)].nest)].device;
    node.nest = open_nest(u.shape(), device, facts_[u].bytes);
    node.own_index = plan_.nests.back().index;
    const UOps ranges = plan_.nests.back().ranges;
    compute(u, node, {node.own_index, open_scope(node.nest, ranges)}, ranges);
  }

  void materialise_whole(const UOp& u, NodePlan& node, std::string reason) {
    node.keeps_all_axes = true;
    materialise(u, node, std::move(reason), false);
  }

  void materialise_local(const UOp& u, NodePlan& node, Verdict verdict) {
    const Use first = node.uses[0];
    const int nest = plan_.scopes[static_cast<size_t>(first.scope)].nest;
    node.memory = NodePlan::Memory::local;
    node.reason = std::move(verdict.reason);
    node.nest = nest;
    node.axes = verdict.axes;
    node.own_index = first.index;
    UOps loops = verdict.loops_around;
    int64_t bytes = u.dtype().bytes();
    for (size_t axis : verdict.axes) {
      const UOp& size = u.shape()[axis];
      node.own_index[axis] = UOp::range(size.simplify(), plan_.next_range++);
      loops.push_back(node.own_index[axis]);
      bytes *= size_of(size);
    }
    std::ranges::sort(loops, before);
    for (size_t axis : verdict.axes) outer_of_.emplace(node.own_index[axis], verdict.loops_around);
    plan_.nests[static_cast<size_t>(nest)].local_bytes += bytes;
    add_reduce_scope(nest, verdict.loops_around);
    const int scope = open_scope(nest, loops);
    compute(u, node, {node.own_index, scope}, loops);
  }

  void want_in_memory(const UOp& x) {
    if (contiguous_view(x)) return;
    plan_.of(x).wanted_in_memory = true;
  }

  int open_nest(const UOps& shape, const UOp& device, int64_t bytes) {
    Nest nest;
    nest.bytes = bytes;
    for (const UOp& size : shape) {
      nest.index.push_back(size.equals(1) ? UOp::index(0) : UOp::range(size.simplify(), plan_.next_range++));
      if (nest.index.back().op() == Op::RANGE) nest.ranges.push_back(nest.index.back());
    }
    std::ranges::sort(nest.ranges, before);
    QUERN_CHECK(device, "a kernel on no device");
    nest.device = device;
    nest.spec = &spec_of_(device.arg().texts()[0]);
    plan_.nests.push_back(std::move(nest));
    return static_cast<int>(plan_.nests.size()) - 1;
  }

  int open_scope(int nest, UOps loops) {
    plan_.scopes.push_back({nest, std::move(loops)});
    return static_cast<int>(plan_.scopes.size()) - 1;
  }

  void add_reduce_scope(int nest, const UOps& loops_around) {
    Nest& n = plan_.nests[static_cast<size_t>(nest)];
    UOps outputs;
    for (const UOp& r : loops_around)
      if (std::ranges::binary_search(n.ranges, r, before)) outputs.push_back(r);
    if (outputs.size() == n.ranges.size()) return;
    std::vector<UOps>& known = n.reduce_scopes;
    const auto at = std::ranges::find_if(known, [&](const UOps& k) { return k.size() >= outputs.size(); });
    if (at == known.end() || at->size() != outputs.size()) known.insert(at, std::move(outputs));
  }

  // Which of the node's uses it is; one that is there already is shared.
  uint32_t add_use(const UOp& u, Use use) {
    std::vector<Use>& uses = plan_.of(u).uses;
    auto scope = [&](int i) -> const Scope& { return plan_.scopes[static_cast<size_t>(i)]; };
    const int nest = scope(use.scope).nest;
    auto is_shared = [&](Use& known) {
      if (scope(known.scope).nest != nest || !std::ranges::equal(known.index, use.index)) return false;
      if (scope(use.scope).loops.size() > scope(known.scope).loops.size()) known.scope = use.scope;
      return true;
    };
    const auto next = static_cast<uint32_t>(uses.size());
    for (uint32_t i = 0; i < std::min(next, kFewUses); i++)
      if (is_shared(uses[i])) return i;
    if (next >= kFewUses) {
      std::vector<uint32_t>& others = other_uses_[{u.node(), nest}];
      for (const uint32_t i : others)
        if (is_shared(uses[i])) return i;
      others.push_back(next);
    }
    uses.push_back(std::move(use));
    return next;
  }

  Plan& plan_;
  const SpecOf& spec_of_;
  FactsOf facts_;
  std::map<UOp, UOps, bool (*)(const UOp&, const UOp&)> outer_of_;
  // Of nodes that many kernels use, beyond the first few: by nest.
  static constexpr uint32_t kFewUses = 16;
  std::map<std::pair<const detail::Node*, int>, std::vector<uint32_t>> other_uses_;
};

}  // namespace

// Kernels of the user's are not looked into.
Plan::Plan(const UOp& sink, const SpecOf& spec_of)
    : order(sink.toposort([&](const UOp& u) { return u.op() != Op::SINK || same(u, sink); })) {
  Planner(*this, spec_of).run();
}

}  // namespace quern
