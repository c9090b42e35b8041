#include "quern/schedule/canonicalise/early.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/base/error.h"
#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/rules/rules.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/schedule/canonicalise/split_reduce.h"
#include "quern/schedule/facts/device_parts.h"
#include "quern/schedule/facts/facts.h"
#include "quern/schedule/facts/memory_view.h"

namespace quern {
namespace {

// ---- copies
// -------------------------------------------------------------------------------------------------

UOp simplify_copy(const UOp& copy, const UOp& x, const UOp& device) {
  if (base_of(x).is_const() || !x.ops_below().contains(Op::DEVICE)) return x;  // it is everywhere
  if (x.device() == device.arg().texts()) return x;
  if (x.op() == Op::EXPAND || x.op() == Op::PERMUTE || x.op() == Op::FLIP) {  // less is copied, or as it lies
    UOps sources(x.src().begin(), x.src().end());
    sources[0] = copy.with_src(UOps{x.src(0), device});
    return x.with_src(sources);
  }
  return {};
}

// What turned out to be made from constants alone is on no device, and needs no memory.
UOp select_of_constants(const UOp& u) {
  return u.src(0).ops_below().contains(Op::DEVICE) ? UOp() : select_device(u.src(0), u.arg().integer());
}
UOp stack_of_constants(const UOp& u) {
  if (u.ops_below().contains(Op::DEVICE)) return {};
  UOp result = u.src(0);
  const UOp number = device_number(std::ssize(u.src()));
  for (size_t i = 1; i < u.src().size(); i++)
    if (!same(u.src(i), u.src(0)))
      result = where(full(u.shape(), eq(number, static_cast<int64_t>(i))), u.src(i), result);
  return result;
}

// ---- stores
// -------------------------------------------------------------------------------------------------

UOp simplify_store(const UOp& store, const UOp& target, const UOp& value) {
  if (same(target, value)) return UOp::make(Op::NOOP, dtypes::void_);
  if (elements_at_most(target.shape()) == 0) return UOp::make(Op::NOOP, dtypes::void_);
  if (value.op() == Op::CONTIGUOUS)
    return store.replace({.src = UOps{target, value.src(0)}, .arg = value.arg()});
  if (target.op() == Op::BITCAST)
    return store.with_src(UOps{target.src(0), value.bitcast(target.src(0).dtype())});
  return {};
}

UOp simplify_after(const UOp& u) {
  UOps sources{u.src(0)};
  for (const UOp& e : u.src().subspan(1))
    if (e.op() != Op::NOOP && std::ranges::find(sources, e) == sources.end()) sources.push_back(e);
  if (sources.size() != u.src().size()) return after(sources[0], Sources(sources).subspan(1));
  const UOp& x = u.src(0);
  if (is_movement(x.op()) || x.op() == Op::BITCAST) {  // memory is under movement ops
    UOps moved(x.src().begin(), x.src().end());
    moved[0] = after(x.src(0), u.src().subspan(1));
    return x.with_src(moved);
  }
  // The same stored twice, or what is there already.
  const UOp& last = u.src(1);
  if (u.src().size() == 2 && x.op() == Op::AFTER && x.src().size() == 2 && last.op() == Op::STORE &&
      x.src(1).op() == Op::STORE && same(base_of(last.src(0)), x) && same(last.src(1), x.src(1).src(1)) &&
      is_whole_memory(last.src(0)) && is_whole_memory(x.src(1).src(0)) &&
      same_sizes(last.src(0).shape(), x.src(1).src(0).shape()))
    return x;
  return {};
}

// ---- size 0
// -------------------------------------------------------------------------------------------------

bool is_empty(const UOp& u) {
  return u.has_shape() && std::ranges::any_of(u.shape(), [](const UOp& s) { return s.equals(0); });
}
UOp empty_value(const UOp& u) {
  if (u.dtype().is_void() || !is_empty(u)) {
    if (u.op() == Op::PAD && is_empty(u.src(0))) return full(u.shape(), UOp::constant(u.dtype(), wide{0}));
    if (u.op() != Op::REDUCE) return {};
    const Reduction reduction(u);
    if (reduction.has_several_values() || !is_empty(reduction.value())) return {};
    return full(u.shape(), reduction.identity()[0]);
  }
  if (base_of(u).is_const() || u.op() == Op::BUFFER || u.op() == Op::PARAM) return {};
  return full(u.shape(), UOp::constant(u.dtype(), wide{0}));
}

UOp merge_reshapes(const UOp& u) {
  const UOp& x = u.src(0);
  if (x.op() != Op::RESHAPE && !same_sizes(x.shape(), u.shape())) return {};
  return reshape(x, u.shape());
}

constexpr OpSet kEmptied =
    (ops::elementwise | ops::movement | OpSet{Op::REDUCE, Op::CONTIGUOUS, Op::COPY, Op::MSELECT, Op::MSTACK});

}  // namespace

const Rules early_rewrites = [] {
  const Pat x = var("x");
  return RuleList{
      {op(Op::BIND, {x}).and_more(), [](const UOp& v) { return v; }, "a bound variable -> the variable"},
      {op(Op::GETTUPLE, {op(Op::TUPLE).as("tuple")}).as("get"),
       [](const UOp& get, const UOp& tuple) { return tuple.src(static_cast<size_t>(get.arg().integer())); },
       "a value of a tuple -> the value"},
      {op({Op::DETACH, Op::CONTIGUOUS_BACKWARD}, {x}), x},
      {op(Op::NOOP, {x}).and_more(), [](const UOp& v) { return v; },
       "a value that is told apart -> the value"},
      {op(Op::CONST).as("u"), without_identity, "a constant that is told apart -> the constant"},
      {op(kEmptied).as("u"), empty_value,
       "a tensor without elements, or padding alone -> a constant; a reduce of none -> its start"},
      {op(Op::RESHAPE).as("u"), merge_reshapes, "a reshape of a reshape -> one"},
      {op(Op::CONTIGUOUS, {op(Op::CONTIGUOUS).as("x")}).as("u"),
       [](const UOp& u, const UOp& inner) {
         return inner.arg().none() ? inner.replace({.arg = u.arg()}) : inner;
       },
       "contiguous(contiguous(x)) -> contiguous(x)"},
      {op(Op::CONTIGUOUS, {x}).as("u"),
       [](const UOp& v, const UOp& u) { return u.arg().none() && is_whole_memory(v) ? v : UOp(); },
       "contiguous(memory) -> memory, unless its kernel is to have opts"},
      {op(Op::COPY, {x, var("device")}).as("copy"), simplify_copy,
       "copies of constants, to the same device, of views"},
      {op(Op::MSELECT).as("u"), select_of_constants, "a device's part of constants -> the constants"},
      {op(Op::MSTACK).as("u"), stack_of_constants, "parts made from constants -> the one of each device"},
      {op(Op::STORE, {var("target"), var("value")}).as("store"), simplify_store,
       "stores of nothing, of itself"},
      {op(Op::AFTER).as("u"), simplify_after, "memory is under movement ops; the same twice -> once"},
      {op(Op::REDUCE).as("reduce"), split_reduce, "a large reduce -> two"},
  };
};

// From below, so that a store whose value reads what another one stored sees that one as it is now.
UOp with_values_first(const UOp& sink, const UOps& stores) {
  const NodeList order = sink.toposort([&](const UOp& u) { return u.op() != Op::SINK || same(u, sink); });
  NodeSet chosen;
  for (const UOp& s : stores) chosen.insert(s);
  NodeMap<UOp> done;
  for (const UOp& u : order) {
    if (u.op() == Op::SINK && !same(u, sink)) {  // the body of a CALL
      done.emplace(u, u);
      continue;
    }
    UOps sources;
    for (size_t i = 0; i < u.src().size(); i++)
      sources.push_back(u.op() == Op::CALL && i == 0 ? u.src(i) : *done.find(u.src(i)));
    if (chosen.contains(u))
      sources[1] = contiguous(sources[1]).with_hint(&Hints::reason, "it is stored where it is read from");
    done.emplace(u, u.with_src(sources));
  }
  return *done.find(sink);
}

UOp with_old_contents_copied(const UOp& sink, const UOps& memory) {
  const NodeList order = sink.toposort([&](const UOp& u) { return u.op() != Op::SINK || same(u, sink); });
  auto under = [](const UOp& u) -> const UOp& {
    const UOp* m = &u;
    while (m->op() == Op::AFTER || is_movement(m->op())) m = &m->src(0);
    return *m;
  };
  NodeSet overwritten;
  for (const UOp& u : order)
    if (u.op() == Op::AFTER && std::ranges::find(memory, under(u)) != memory.end())
      overwritten.insert(u.src(0));
  NodeMap<UOp> as_value, as_memory;
  for (const UOp& u : order) {
    if (u.op() == Op::SINK && !same(u, sink)) {  // the body of a CALL
      as_value.emplace(u, u);
      as_memory.emplace(u, u);
      continue;
    }
    UOps sources, places;
    const UOps written = u.op() == Op::CALL ? written_arguments(u) : UOps();
    const bool first_is_place =
        u.op() == Op::AFTER || u.op() == Op::STORE || (u.op() == Op::CONTIGUOUS && !u.hints().reason.empty());
    for (size_t i = 0; i < u.src().size(); i++) {
      const bool place = (i == 0 && first_is_place) || std::ranges::find(written, u.src(i)) != written.end();
      const bool body = u.op() == Op::CALL && i == 0;
      sources.push_back(body ? u.src(i) : place ? *as_memory.find(u.src(i)) : *as_value.find(u.src(i)));
      places.push_back(body ? u.src(i) : i == 0 ? *as_memory.find(u.src(i)) : *as_value.find(u.src(i)));
    }
    const UOp value = u.with_src(sources);
    as_memory.emplace(u, is_movement(u.op()) || u.op() == Op::AFTER ? u.with_src(places) : value);
    const bool copied = overwritten.contains(u);
    as_value.emplace(
        u,
        copied ? contiguous(value).with_hint(&Hints::reason, "it is read after it is overwritten") : value);
  }
  return *as_value.find(sink);
}

}  // namespace quern
