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

// What has become of STAGEs and of reads of them: an index that is made again has them, too.
struct Stores {
  std::unordered_map<UOp, UOp> done = {};
  int64_t next = 0;
};

UOp with_stores(Stores& stores, const UOp& root) {
  const auto is_new = [&](const UOp& u) {  // and no kernel that is called
    return u.op() == Op::SINK ? same(u, root) : !stores.done.contains(u);
  };
  return graph_rewrite(root, memory_of_stages, stores,
                       {.order = Order::once, .name = "memory", .gate = is_new});
}

UOp read_of_stage(Stores& stores, const UOp& u, Sources now) {
  const Op read = u.src(0).op();
  if (read != Op::STAGE && read != Op::MSELECT && read != Op::MSTACK) return {};
  if (const auto known = stores.done.find(u); known != stores.done.end()) return known->second;
  // Simplified while stages are stages: simplifying what is stored would make two states of one memory.
  const UOp place = flat_index(u.src().subspan(1), u.src(0).shape());
  const UOp result = UOp::make(Op::INDEX, u.dtype(), {now[0], with_stores(stores, place)});
  stores.done.emplace(u, result);
  return result;
}

UOp without_no_effects(Stores&, const UOp& u, Sources now) {
  UOps left{now[0]};
  for (const UOp& effect : now.subspan(1))
    if (effect.op() != Op::NOOP) left.push_back(effect);
  return left.size() == 1 ? left[0] : u.with_src(left);
}

UOp memory_of_stage(Stores& stores, const UOp& u, Sources now) {
  if (const auto known = stores.done.find(u); known != stores.done.end()) return known->second;
  const StageArg& arg = u.arg().stage();
  const UOps& shape = u.shape();
  const int64_t elements = elements_at_most(shape);
  const bool local = arg.space == AddrSpace::LOCAL;
  UOp memory;
  if (local) {
    memory = UOp::make(Op::DEFINE_LOCAL, u.dtype().ptr(elements, AddrSpace::LOCAL), {}, stores.next++);
  } else {
    const UOp identity = UOp::make(Op::LUNIQUE, dtypes::void_, {}, stores.next++);
    const UOp device = UOp::make(Op::DEVICE, dtypes::void_, {}, arg.device);
    memory = UOp::make(Op::BUFFER, u.dtype(), {identity, device}, elements);
  }
  UOps ranges;
  for (const UOp& s : now.subspan(1))
    if (s.op() == Op::RANGE) ranges.push_back(s);
  const UOp place = flat_index(now.subspan(1), shape);
  UOp effect = UOp::make(Op::STORE, dtypes::void_, {UOp::make(Op::INDEX, u.dtype(), {memory, place}), now[0]},
                         arg.opts.empty() ? Arg() : Arg(arg.opts), Hints{.reason = arg.reason});
  if (!ranges.empty()) {
    UOps closed{effect};
    closed.insert(closed.end(), ranges.begin(), ranges.end());
    effect = UOp::make(Op::END, dtypes::void_, closed);
  }
  if (local) effect = UOp::make(Op::BARRIER, dtypes::void_, {effect});
  const UOp result = after(memory, UOps{effect});
  stores.done.emplace(u, result);
  return result;
}

}  // namespace

const Rules memory_of_stages = [] {
  return RuleList{
      {op(Op::INDEX), read_of_stage, "a read of a STAGE -> of its memory, at one index"},
      {op(Op::AFTER), without_no_effects, "effects that turned out to be none -> the others"},
      {op(Op::STAGE), memory_of_stage, "a STAGE -> memory, after a store into it"},
  };
};

UOp stages_to_stores(const UOp& sink) {
  Stores stores;
  walk(sink, [&](const UOp& u) {
    if (u.op() == Op::LUNIQUE) stores.next = std::max(stores.next, u.arg().integer() + 1);
  });
  return with_stores(stores, sink);
}

}  // namespace quern
