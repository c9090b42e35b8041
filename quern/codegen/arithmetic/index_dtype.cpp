#include "quern/codegen/arithmetic/index_dtype.h"

#include <algorithm>

#include "quern/codegen/analysis/rebuild.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {
namespace {

bool is_narrow(const UOp& u) {
  return u.is_invalid() || (fits(dtypes::int32, u.vmin()) && fits(dtypes::int32, u.vmax()));
}
DType integer_for(bool narrow, DType like) {
  return (narrow ? dtypes::int32 : dtypes::int64).vec(like.lanes());
}

UOp as(const UOp& u, DType dtype) {
  if (u.is_const()) return UOp::constant(dtype, u.value());
  return u.cast(dtype);
}

// Its own dtype in integers; sources that were of dtype index become that, too.
UOp with_integers(const UOp& u, UOps sources, DType operands, DType result) {
  for (size_t i = 0; i < sources.size(); i++)
    if (u.src(i).dtype().is_index()) sources[i] = as(sources[i], operands);
  return UOp::make(u.op(), result, sources, u.arg(), u.tag());
}

DType pointer_like(DType pointer, DType to) {
  return to.vec(pointer.lanes()).ptr(pointer.size(), pointer.space());
}

UOp lowered(const UOp& u, const UOps& sources) {
  const bool is_index = u.dtype().is_index();
  const bool uses_index = std::ranges::any_of(u.src(), [](const UOp& s) { return s.dtype().is_index(); });
  if (u.dtype().is_ptr()) {
    if (u.dtype().kind() != Scalar::Index) return {};
    return UOp::make(u.op(), pointer_like(u.dtype(), dtypes::int64), sources, u.arg(), u.tag());
  }
  if (!is_index && !uses_index) {  // effects and values that go through follow their source
    if (u.op() == Op::STORE && u.src(1).dtype().is_index()) return {};
    return {};
  }
  switch (u.op()) {
    case Op::CONST: return as(u, integer_for(is_narrow(u), u.dtype()));
    case Op::DEFINE_VAR: return u.replace({.dtype = integer_for(is_narrow(u), u.dtype())});
    case Op::RANGE:
    case Op::SPECIAL: {
      const DType dtype = integer_for(is_narrow(u.src(0)), u.dtype());
      return with_integers(u, sources, dtype, dtype);
    }
    case Op::LOAD:  // of a register that holds an index
      return with_integers(u, sources, integer_for(false, u.dtype()), integer_for(false, u.dtype()));
    case Op::STORE: return with_integers(u, sources, integer_for(false, u.src(1).dtype()), u.dtype());
    case Op::CAST: {
      if (!is_index) return sources[0].cast(u.dtype());
      return as(sources[0], integer_for(is_narrow(u), u.dtype()));
    }
    case Op::AFTER:
    case Op::NOOP: return is_index ? u.replace({.dtype = sources[0].dtype(), .src = sources}) : UOp();
    default: break;
  }
  if (is_elementwise(u.op()) || u.op() == Op::VECTORIZE || u.op() == Op::GEP) {
    bool narrow = !is_index || is_narrow(u);
    for (const UOp& s : u.src())
      if (s.dtype().is_index()) narrow &= is_narrow(s);
    const DType result = is_index ? integer_for(narrow, u.dtype()) : u.dtype();
    if (u.op() == Op::GEP)
      return UOp::make(u.op(), sources[0].dtype().scalar().vec(u.dtype().lanes()), sources, u.arg());
    UOps now = sources;
    for (size_t i = 0; i < now.size(); i++)
      if (u.src(i).dtype().is_index()) now[i] = as(now[i], integer_for(narrow, u.src(i).dtype()));
    return UOp::make(u.op(), result, now, u.arg(), u.tag());
  }
  return {};
}

// The sum that a position is, term by term.
UOp in_64_bits(const UOp& position) {
  struct Term {
    UOp value;
    UOp factor;  // none: 1
  };
  UOps stack{position};
  std::vector<Term> terms;
  while (!stack.empty()) {
    const UOp u = std::move(stack.back());
    stack.pop_back();
    if (u.op() == Op::ADD) {
      stack.push_back(u.src(1));
      stack.push_back(u.src(0));
    } else if (u.op() == Op::MUL && u.src(1).is_int_const()) {
      terms.push_back({u.src(0), u.src(1)});
    } else {
      terms.push_back({u, {}});
    }
  }
  UOp sum;
  for (const auto& [value, factor] : terms) {
    UOp term = as(value, dtypes::int64);
    if (factor) term = term * as(factor, dtypes::int64);
    sum = sum ? sum + term : term;
  }
  return sum;
}

}  // namespace

UOp addresses_in_64_bits(const UOp& program) {
  return rebuild(program, [](const UOp& u, const UOps& sources) -> UOp {
    if (u.op() != Op::INDEX || storage_of(u).op() == Op::DEFINE_REG) return {};
    UOp now = u.with_src(sources);
    if (!position_of(now).dtype().is_index()) return now;
    UOp position = in_64_bits(position_of(now));
    if (has_gate(now)) position = where(gate_of(now), position, UOp::invalid(dtypes::int64));
    return now.with_src(UOps{now.src(0), position});
  });
}

UOp index_to_integers(const UOp& program) { return rebuild(program, lowered); }

}  // namespace quern
