#include "quern/schedule/ranges/stages.h"

#include <algorithm>
#include <unordered_map>

#include "quern/base/error.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/facts.h"
#include "quern/schedule/facts/movement_index.h"

namespace quern {
namespace {

constexpr int kCheapOps = 12, kCheapLoads = 3;

// No reduce, few operations, few loads.
bool is_cheap(const UOp& value) {
  if (value.ops_below().contains(Op::REDUCE)) {
    bool reduces = false;
    walk(
        value, [](const UOp& u) { return u.op() != Op::INDEX && u.op() != Op::REDUCE; },
        [&](const UOp& u) { reduces |= u.op() == Op::REDUCE; });
    if (reduces) return false;
  }
  int ops = 0, loads = 0;
  walk(
      value, [](const UOp& u) { return u.op() != Op::INDEX; },
      [&](const UOp& u) {
        ops += is_elementwise(u.op()) && !u.dtype().is_index() ? 1 : 0;
        loads += u.op() == Op::INDEX ? 1 : 0;
      });
  return ops <= kCheapOps && loads <= kCheapLoads;
}

// Reads of what need not be materialised.
UOp inline_stage(const UOp& index, const UOp& stage) {
  const StageArg& arg = stage.arg().stage();
  const UOp& value = stage.src(0);
  if (value.is_const()) return value;
  if (!arg.removable || !is_cheap(value)) return {};
  std::unordered_map<UOp, UOp> map;
  for (size_t i = 1; i < stage.src().size(); i++)
    if (stage.src(i).op() == Op::RANGE) map.emplace(stage.src(i), index.src(i));
  return value.substitute_open(map);
}

}  // namespace

const Rules stage_folding = [] {
  return RuleList{
      {op(Op::INDEX, {op(Op::STAGE).as("stage")}).and_more().as("index"), inline_stage,
       "a read of what is cheap -> what is read"},
      {op(Op::STORE, {var("x"), var("x")}), [](const UOp&) { return UOp::make(Op::NOOP, dtypes::void_); },
       "a store of itself -> nothing"},
      {op(Op::END, {op(Op::NOOP, std::vector<Pat>{}).as("nothing")}).and_more(),
       [](const UOp& nothing) { return nothing; }, "a loop around nothing -> nothing"},
  };
};

namespace {

class Stores {
 public:
  UOp run(const UOp& sink) {
    walk(sink, [&](const UOp& u) {
      if (u.op() == Op::LUNIQUE) next_ = std::max(next_, u.arg().integer() + 1);
    });
    return with_stores(sink);
  }

 private:
  UOp with_stores(const UOp& root) {
    const NodeList order = root.toposort([&](const UOp& u) { return u.op() != Op::SINK || same(u, root); });
    for (const UOp& u : order) {
      if (done_.contains(u)) continue;
      UOps sources;
      const bool inside = u.op() != Op::SINK || same(u, root);
      for (const UOp& s : u.src()) sources.push_back(inside ? *done_.find(s) : s);
      done_.emplace(u, rewritten(u, sources));
    }
    return *done_.find(root);
  }

  UOp rewritten(const UOp& u, const UOps& sources) {
    const bool has_axes =
        u.op() == Op::INDEX &&
        (u.src(0).op() == Op::STAGE || u.src(0).op() == Op::MSELECT || u.src(0).op() == Op::MSTACK);
    if (has_axes) {
      // Simplified while stages are stages: simplifying what is stored would make two states of one memory.
      const UOp place = flat_index(u.src().subspan(1), u.src(0).shape());
      return UOp::make(Op::INDEX, u.dtype(), {sources[0], with_stores(place)});
    }
    if (u.op() == Op::AFTER) {  // effects that turned out to be none
      UOps left{sources[0]};
      for (size_t i = 1; i < sources.size(); i++)
        if (sources[i].op() != Op::NOOP) left.push_back(sources[i]);
      return left.size() == 1 ? left[0] : u.with_src(left);
    }
    if (u.op() != Op::STAGE) return u.with_src(sources);
    const StageArg& arg = u.arg().stage();
    const UOps& shape = u.shape();
    const int64_t elements = elements_at_most(shape);
    const bool local = arg.space == AddrSpace::LOCAL;
    UOp memory;
    if (local) {
      memory = UOp::make(Op::DEFINE_LOCAL, u.dtype().ptr(elements, AddrSpace::LOCAL), {}, next_++);
    } else {
      const UOp identity = UOp::make(Op::LUNIQUE, dtypes::void_, {}, next_++);
      const UOp device = UOp::make(Op::DEVICE, dtypes::void_, {}, arg.device);
      memory = UOp::make(Op::BUFFER, u.dtype(), {identity, device}, elements);
    }
    UOps ranges;
    for (size_t i = 1; i < sources.size(); i++)
      if (sources[i].op() == Op::RANGE) ranges.push_back(sources[i]);
    const UOp place = flat_index(Sources(sources).subspan(1), shape);
    UOp effect =
        UOp::make(Op::STORE, dtypes::void_, {UOp::make(Op::INDEX, u.dtype(), {memory, place}), sources[0]},
                  arg.opts.empty() ? Arg() : Arg(arg.opts), arg.reason);
    if (!ranges.empty()) {
      UOps closed{effect};
      closed.insert(closed.end(), ranges.begin(), ranges.end());
      effect = UOp::make(Op::END, dtypes::void_, closed);
    }
    if (local) effect = UOp::make(Op::BARRIER, dtypes::void_, {effect});
    return after(memory, UOps{effect});
  }

  NodeMap<UOp> done_;
  int64_t next_ = 0;
};

}  // namespace

UOp stages_to_stores(const UOp& sink) { return Stores().run(sink); }

}  // namespace quern
