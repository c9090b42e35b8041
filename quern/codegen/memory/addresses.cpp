#include "quern/codegen/memory/addresses.h"

#include <algorithm>

#include <fmt/format.h>

#include "quern/codegen/analysis/rebuild.h"
#include "quern/ir/pass/linear_program.h"

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

// Values that are invalid somewhere: nothing comes of them there, so they may be anything.
UOps without_invalid(const UOp& user, const UOps& sources) {
  UOps values = sources;
  const bool is_gate = user.op() == Op::WHERE && user.src(2).is_invalid();
  for (size_t i = 0; i < (is_gate ? 2 : values.size()); i++) {
    while (values[i].op() == Op::WHERE && values[i].src(2).is_invalid()) values[i] = UOp(values[i].src(1));
    if (values[i].is_invalid()) values[i] = zero(values[i].dtype());
  }
  return values;
}

}  // namespace

UOp to_addresses(const UOp& kernel) {
  return rebuild(kernel, [&](const UOp& u, const UOps& sources) -> UOp {
    switch (u.op()) {
      case Op::RESHAPE:
        if (!u.dtype().is_ptr())
          throw Error("kernel: RESHAPE of a value; only memory is reshaped in a kernel");
        return sources[0];
      case Op::INDEX: {
        if (!sources[0].dtype().is_ptr())
          throw Error(fmt::format("kernel: INDEX of {}, which is no memory", name(sources[0].op())));
        const UOp position = flat(u, Sources(sources).subspan(1));
        if (position.dtype().lanes() != 1)
          throw Error("kernel: INDEX with a vector of indices; write one INDEX for each lane");
        const UOp address = UOp::make(Op::INDEX, sources[0].dtype(), {sources[0], position});
        return u.dtype().is_ptr() ? address : UOp::make(Op::LOAD, u.dtype(), {address});
      }
      case Op::STORE:  // the place was written as an element
        if (u.src(0).op() == Op::INDEX && !u.src(0).dtype().is_ptr())
          return UOp::make(Op::STORE, dtypes::void_, {sources[0].src(0), sources[1]});
        return {};
      case Op::STAGE: throw Error("kernel: a STAGE that has no memory");
      case Op::BIND: return sources[0];
      default:
        if (is_movement(u.op())) throw Error(fmt::format("kernel: {} in a kernel", name(u.op())));
        return {};
    }
  });
}

UOp without_double_gates(const UOp& program) {
  return rebuild(program, [](const UOp& u, const UOps& sources) -> UOp {
    if (u.op() != Op::WHERE || sources[1].op() != Op::LOAD || sources[1].src().size() > 1 ||
        !same(sources[2], zero(u.dtype())))
      return {};
    const UOp& index = index_of_address(sources[1].src(0));
    if (!has_gate(index)) return {};
    const UOps loaded = terms_of(gate_of(index));
    const bool implied = std::ranges::all_of(terms_of(sources[0]), [&](const UOp& term) {
      return std::ranges::find(loaded, term) != loaded.end();
    });
    return implied ? sources[1] : UOp();
  });
}

UOp gates_to_alternatives(const UOp& program) {
  return rebuild(program, [](const UOp& u, const UOps& given) -> UOp {
    const UOps sources = u.op() == Op::INDEX ? given : without_invalid(u, given);
    switch (u.op()) {
      case Op::LOAD: {
        const UOp& index = index_of_address(sources[0]);
        UOp otherwise = sources.size() > 1 ? sources[1] : zero(u.dtype());
        if (index.src(1).is_invalid()) return otherwise;
        if (sources.size() > 2) return u.with_src(sources);
        return u.with_src(has_gate(index) ? UOps{sources[0], otherwise} : UOps{sources[0]});
      }
      case Op::STORE:
        return index_of_address(sources[0]).src(1).is_invalid() ? UOp::make(Op::NOOP, dtypes::void_)
                                                                : u.with_src(sources);
      case Op::END: return is_nothing(sources[0]) ? sources[0] : u.with_src(sources);
      case Op::SINK:
      case Op::AFTER:
      case Op::GROUP: {
        UOps kept;
        for (const UOp& s : sources)
          if (!is_nothing(s)) kept.push_back(s);
        if (u.op() == Op::GROUP && kept.empty()) return UOp::make(Op::NOOP, dtypes::void_);
        if (u.op() == Op::AFTER && kept.size() == 1) return kept[0];
        return u.with_src(kept);
      }
      default: return u.src().empty() ? UOp() : u.with_src(sources);
    }
  });
}

}  // namespace quern
