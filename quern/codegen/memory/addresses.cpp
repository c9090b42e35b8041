#include "quern/codegen/memory/addresses.h"

#include <algorithm>

#include <fmt/format.h>

#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

UOp flat(const UOp& index, Sources indices) {
  if (indices.empty()) return UOp::index(0);
  if (indices.size() == 1) return indices[0];
  const UOps& sizes = index.src(0).shape();
  if (sizes.size() != indices.size())
    throw Error(fmt::format("kernel: {} indices into memory of {} axes", indices.size(), sizes.size()));
  UOp position = indices[0];
  for (size_t i = 1; i < indices.size(); i++) position = position * sizes[i] + indices[i];
  return position;
}

// a & b & c: a, b, c
UOps terms_of(const UOp& gate) {
  UOps terms, stack{gate};
  while (!stack.empty()) {
    const UOp u = std::move(stack.back());
    stack.pop_back();
    if (u.op() == Op::AND)
      stack.insert(stack.end(), u.src().begin(), u.src().end());
    else
      terms.push_back(u);
  }
  return terms;
}

UOp zero(DType dtype) { return UOp::constant(dtype, make_const(dtype, 0)); }

bool is_nothing(const UOp& u) { return u.op() == Op::NOOP && u.src().empty(); }

// ---- elements to addresses

UOp memory_of_reshape(const UOp& u, Sources now) {
  if (!u.dtype().is_ptr()) throw Error("kernel: RESHAPE of a value; only memory is reshaped in a kernel");
  return now[0];
}

UOp address_of(const UOp& u, Sources now) {
  if (!now[0].dtype().is_ptr())
    throw Error(fmt::format("kernel: INDEX of {}, which is no memory", name(now[0].op())));
  const UOp position = flat(u, now.subspan(1));
  if (position.dtype().lanes() != 1)
    throw Error("kernel: INDEX with a vector of indices; write one INDEX for each lane");
  const UOp address = UOp::make(Op::INDEX, now[0].dtype(), {now[0], position});
  return u.dtype().is_ptr() ? address : UOp::make(Op::LOAD, u.dtype(), {address});
}

UOp store_to_address(const UOp& u, Sources now) {
  if (u.src(0).op() != Op::INDEX || u.src(0).dtype().is_ptr()) return {};
  return UOp::make(Op::STORE, dtypes::void_, {now[0].src(0), now[1]});
}

UOp refuse_stage(const UOp&, Sources) { throw Error("kernel: a STAGE that has no memory"); }
UOp refuse_movement(const UOp& u, Sources) {
  throw Error(fmt::format("kernel: {} in a kernel", name(u.op())));
}
UOp variable_of_bind(const UOp&, Sources now) { return now[0]; }

// ---- gates

UOp load_alone(const UOp& u, Sources now) {
  if (now[1].op() != Op::LOAD || now[1].src().size() > 1 || !same(now[2], zero(u.dtype()))) return {};
  const UOp& index = index_of_address(now[1].src(0));
  if (!has_gate(index)) return {};
  const UOps loaded = terms_of(gate_of(index));
  const bool implied = std::ranges::all_of(
      terms_of(now[0]), [&](const UOp& term) { return std::ranges::find(loaded, term) != loaded.end(); });
  return implied ? now[1] : UOp();
}

// Values that are invalid somewhere: nothing comes of them there, so they may be anything.
bool may_be_invalid(const UOp& value) {
  return (value.op() == Op::WHERE && value.src(2).is_invalid()) || value.is_invalid();
}
Sources values_of(const UOp& user, Sources sources) {
  const bool is_gate = user.op() == Op::WHERE && user.src(2).is_invalid();
  return sources.first(is_gate ? 2 : sources.size());
}
UOps without_invalid(const UOp& user, Sources sources) {
  UOps values(sources.begin(), sources.end());
  for (size_t i = 0; i < values_of(user, sources).size(); i++) {
    while (values[i].op() == Op::WHERE && values[i].src(2).is_invalid()) values[i] = UOp(values[i].src(1));
    if (values[i].is_invalid()) values[i] = zero(values[i].dtype());
  }
  return values;
}

UOp load_with_alternative(const UOp& u, Sources now) {
  const UOps sources = without_invalid(u, now);
  const UOp& index = index_of_address(sources[0]);
  UOp otherwise = sources.size() > 1 ? sources[1] : zero(u.dtype());
  if (index.src(1).is_invalid()) return otherwise;
  if (sources.size() > 2) return u.with_src(sources);
  return u.with_src(has_gate(index) ? UOps{sources[0], otherwise} : UOps{sources[0]});
}

UOp store_or_nothing(const UOp& u, Sources now) {
  const UOps sources = without_invalid(u, now);
  return index_of_address(sources[0]).src(1).is_invalid() ? UOp::make(Op::NOOP, dtypes::void_)
                                                          : u.with_src(sources);
}

UOp end_or_nothing(const UOp&, Sources now) { return is_nothing(now[0]) ? now[0] : UOp(); }

UOp without_nothing(const UOp& u, Sources now) {
  if (now.size() > 1 && std::ranges::none_of(now, is_nothing)) return {};
  UOps kept;
  for (const UOp& s : without_invalid(u, now))
    if (!is_nothing(s)) kept.push_back(s);
  if (u.op() == Op::GROUP && kept.empty()) return UOp::make(Op::NOOP, dtypes::void_);
  if (u.op() == Op::AFTER && kept.size() == 1) return kept[0];
  return u.with_src(kept);
}

UOp of_valid_values(const UOp& u, Sources now) {
  if (std::ranges::none_of(values_of(u, now), may_be_invalid)) return {};
  return u.with_src(without_invalid(u, now));
}

}  // namespace

const Rules elements_to_addresses = [] {
  return RuleList{
      {op(Op::RESHAPE), memory_of_reshape, "a reshape of memory -> the memory"},
      {op(Op::INDEX), address_of, "an element -> a LOAD from its address; indices -> one"},
      {op(Op::STORE), store_to_address, "a store to an element -> to its address"},
      {op(Op::BIND), variable_of_bind, "a bound variable -> the variable"},
      {op(Op::STAGE), refuse_stage, "a STAGE -> an error"},
      {op(ops::movement), refuse_movement, "a movement of values -> an error"},
  };
};

const Rules double_gates = [] {
  return RuleList{{op(Op::WHERE), load_alone, "where(gate, a LOAD with this gate, 0) -> the LOAD"}};
};

const Rules gates_to_alternatives = [] {
  return RuleList{
      {op(Op::LOAD), load_with_alternative, "a LOAD with a gate -> with a value for where it is closed"},
      {op(Op::STORE), store_or_nothing, "a STORE to nowhere -> nothing"},
      {op(Op::END), end_or_nothing, "a loop around nothing -> nothing"},
      {op({Op::SINK, Op::AFTER, Op::GROUP}), without_nothing, "nothing among effects -> the others"},
      {op(ops::all - Op::INDEX), of_valid_values, "a value that is invalid somewhere -> the value"},
  };
};

UOp to_addresses(const UOp& kernel) {
  return graph_rewrite(kernel, elements_to_addresses, {.order = Order::once, .name = "addresses"});
}

}  // namespace quern
