#include "quern/schedule/ranges/ranges.h"

#include <algorithm>

#include "quern/base/error.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/memory_view.h"
#include "quern/schedule/facts/movement_index.h"
#include "quern/schedule/fuse/plan.h"

namespace quern {
namespace {

class Lowering {
 public:
  explicit Lowering(const Plan& plan) : plan_(plan), values_(plan.nodes.size()), memory_(plan.nodes.size()) {
    for (const UOp& u : plan.order)
      if (u.op() == Op::LUNIQUE) next_copy_ = std::max(next_copy_, u.arg().integer() + 1);
  }

  UOp run() {
    for (const UOp& u : plan_.order) lower(u, plan_.of(u));
    return memory(plan_.order.back());
  }

 private:
  size_t at(const UOp& u) const { return *plan_.position.find(u); }
  UOp& memory(const UOp& u) { return memory_[at(u)]; }
  const UOp& value(const UOp& u, uint32_t use) const { return values_[at(u)][use]; }

  void lower(const UOp& u, const NodePlan& node) {
    std::vector<UOp>& values = values_[at(u)];
    switch (u.op()) {
      case Op::SINK: {
        if (!same(u, plan_.order.back())) return;  // a kernel of the user's
        UOps effects;
        for (const UOp& s : u.src())
          if (const UOp& state = memory(base_of(s))) effects.push_back(state);
        memory(u) = UOp::sink(effects);
        return;
      }
      case Op::STORE: memory(u) = lower_store(u, node); return;
      case Op::CALL: {
        UOps sources{u.src(0)};
        for (const UOp& s : u.src().subspan(1)) sources.push_back(stretch_of_memory(s));
        memory(u) = u.with_src(sources);
        return;
      }
      case Op::COPY: {
        const UOp identity = UOp::make(Op::LUNIQUE, dtypes::void_, {}, next_copy_++);
        const auto elements = elements_at_most(u.shape());
        const UOp buffer = UOp::make(Op::BUFFER, u.dtype(), {identity, u.src(1)}, elements);
        memory(u) = after(buffer, UOps{UOp::make(Op::STORE, dtypes::void_, {buffer, lower_copy(u)})});
        break;
      }
      case Op::MSELECT:
      case Op::MSTACK: {
        UOps sources;
        for (const UOp& s : u.src()) sources.push_back(stretch_of_memory(s));
        memory(u) = u.with_src(sources);
        break;
      }
      case Op::AFTER: {
        UOps sources;
        for (const UOp& s : u.src()) sources.push_back(memory(s));
        memory(u) = u.with_src(sources);
        break;
      }
      case Op::GROUP: {
        UOps sources;
        for (const UOp& s : u.src()) sources.push_back(memory(s));
        memory(u) = u.with_src(sources);
        return;
      }
      default:
        if (has_memory(u) && u.op() != Op::CONTIGUOUS) memory(u) = u;
    }
    if (node.memory != NodePlan::Memory::none) return lower_materialised(u, node);
    for (size_t i = 0; i < node.uses.size(); i++) {
      if (node.forwarded)
        values.push_back(value(u.src(1).src(1), node.source_uses[i][0]));
      else if (memory(u))
        values.push_back(element(memory(u), node.uses[i].index, u.shape()));
      else
        values.push_back(computed(u, node, i, node.uses[i].index));
    }
  }

  // Of memory; what a STAGE will be has the axes of the value until then.
  static UOp element(const UOp& memory, const UOps& index, const UOps& shape) {
    UOps sources{memory};
    if (memory.shape().size() == 1)
      sources.push_back(flat_index(index, shape));
    else
      sources.insert(sources.end(), index.begin(), index.end());
    return UOp::make(Op::INDEX, memory.dtype(), sources);
  }

  // In the way that was planned for use i.
  UOp computed(const UOp& u, const NodePlan& node, size_t i, const UOps& index) {
    if (u.op() == Op::CONST) return u.src().empty() ? u : UOp::constant(u.dtype(), u.value());
    if (u.op() == Op::BIND) return u.src(0);
    if (u.op() == Op::IOTA) return index[0].cast(u.dtype());
    if (node.source_uses.size() <= i) return u;  // a variable
    const auto& from = node.source_uses[i];
    if (is_movement(u.op())) {
      const UOp& x = value(u.src(0), from[0]);
      if (u.op() != Op::PAD) return x;
      const UOp valid = source_index(u, index).valid;
      return valid ? where(valid, x, x.const_like(0)) : x;
    }
    if (u.op() == Op::REDUCE) {
      UOps sources{value(Reduction(u).value(), from[0])};
      sources.insert(sources.end(), node.reduced[i].begin(), node.reduced[i].end());
      return UOp::make(Op::REDUCE, u.dtype(), sources,
                       ReduceArg{.op = u.arg().reduce().op, .axes = {}, .states = 1});
    }
    if (!is_elementwise(u.op())) return value(u.src(0), from[0]);
    UOps sources;
    for (size_t k = 0; k < u.src().size(); k++) sources.push_back(value(u.src(k), from[k]));
    return u.with_src(sources);
  }

  void lower_materialised(const UOp& u, const NodePlan& node) {
    const UOp x = u.op() == Op::CONTIGUOUS ? value(u.src(0), node.source_uses[0][0])
                                           : computed(u, node, 0, node.own_index);
    const Nest& nest = plan_.nests[static_cast<size_t>(node.nest)];
    const bool global = node.memory == NodePlan::Memory::global;
    std::vector<size_t> axes = node.axes;
    if (global) {
      axes.clear();
      for (size_t i = 0; i < node.own_index.size(); i++)
        if (node.keeps_all_axes || std::ranges::binary_search(x.ranges(), node.own_index[i], before))
          axes.push_back(i);
    }
    UOps sources{x};
    for (size_t axis : axes) sources.push_back(node.own_index[axis]);
    const StageArg arg{.space = global ? AddrSpace::GLOBAL : AddrSpace::LOCAL,
                       .device = nest.device.arg().texts(),
                       .removable = node.removable,
                       .reason = node.reason,
                       .opts = u.op() == Op::CONTIGUOUS && !u.arg().none() ? u.arg().texts() : Texts()};
    const UOp stage = UOp::make(Op::STAGE, u.dtype(), sources, arg);
    memory(u) = stage;
    for (const Use& use : node.uses) {
      UOps indices{stage};
      for (size_t axis : axes) indices.push_back(use.index[axis]);
      values_[at(u)].push_back(UOp::make(Op::INDEX, u.dtype(), indices));
    }
  }

  UOp lower_store(const UOp& u, const NodePlan& node) {
    if (node.nest < 0)
      return UOp::make(Op::STORE, dtypes::void_, {stretch_of_memory(u.src(0)), lower_copy(u.src(1))});
    const UOp &target = value(u.src(0), node.source_uses[0][0]), &x = value(u.src(1), node.source_uses[0][1]);
    QUERN_CHECK(target.op() == Op::INDEX, "a store into what is no memory:\n" + u.text());
    UOps sources{UOp::make(Op::STORE, dtypes::void_, {target, x}, u.arg())};
    const UOps& ranges = plan_.nests[static_cast<size_t>(node.nest)].ranges;
    sources.insert(sources.end(), ranges.begin(), ranges.end());
    return ranges.empty() ? sources[0] : UOp::make(Op::END, dtypes::void_, sources);
  }

  UOp lower_copy(const UOp& copy) {
    return UOp::make(Op::COPY, copy.dtype(), {stretch_of_memory(copy.src(0)), copy.src(1)});
  }

  // Memory as it lies, for a copy or a kernel of the user's.
  UOp stretch_of_memory(const UOp& x) {
    if (memory(x)) return memory(x);
    const auto view = contiguous_view(x);
    QUERN_CHECK(view, "not in memory:\n" + x.text());
    const UOp& whole = memory(view->memory);
    const int64_t elements = elements_at_most(x.shape());
    if (view->offset.equals(0) && elements == elements_at_most(view->memory.shape())) return whole;
    return UOp::make(Op::SLICE, x.dtype(), {whole, view->offset}, elements);
  }

  const Plan& plan_;
  std::vector<std::vector<UOp>> values_;
  std::vector<UOp> memory_;
  int64_t next_copy_ = 0;
};

}  // namespace

UOps hazards_of(const Plan& plan) {
  UOps hazards;
  for (const UOp& u : plan.order) {
    const int nest = plan.of(u).nest;
    if (u.op() != Op::STORE || nest < 0) continue;
    const auto places = std::ranges::count_if(plan.of(base_of(u.src(0))).uses, [&](const Use& use) {
      return plan.scopes[static_cast<size_t>(use.scope)].nest == nest;
    });
    if (places > 1) hazards.push_back(u);
  }
  return hazards;
}

UOp to_ranges(const Plan& plan) { return Lowering(plan).run(); }

}  // namespace quern
