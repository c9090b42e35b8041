#include "quern/codegen/arithmetic/index_dtype.h"

#include <algorithm>

#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rules/rules.h"

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
UOp with_integers(const UOp& u, Sources now, DType operands, DType result) {
  UOps sources(now.begin(), now.end());
  for (size_t i = 0; i < sources.size(); i++)
    if (u.src(i).dtype().is_index()) sources[i] = as(sources[i], operands);
  return UOp::make(u.op(), result, sources, u.arg(), u.tag());
}

DType pointer_like(DType pointer, DType to) {
  return to.vec(pointer.lanes()).ptr(pointer.size(), pointer.space());
}

// Is it an index, or made from one?
bool concerns_index(const UOp& u) {
  return !u.dtype().is_ptr() && (u.dtype().is_index() || std::ranges::any_of(u.src(), [](const UOp& s) {
                                   return s.dtype().is_index();
                                 }));
}

UOp pointer_to_integers(const UOp& u, Sources now) {
  if (!u.dtype().is_ptr() || u.dtype().kind() != Scalar::Index) return {};
  return UOp::make(u.op(), pointer_like(u.dtype(), dtypes::int64), now, u.arg(), u.tag());
}

UOp constant_to_integer(const UOp& u, Sources) {
  return u.dtype().is_index() ? as(u, integer_for(is_narrow(u), u.dtype())) : UOp();
}

UOp variable_to_integer(const UOp& u, Sources) {
  return u.dtype().is_index() ? u.replace({.dtype = integer_for(is_narrow(u), u.dtype())}) : UOp();
}

UOp steps_to_integers(const UOp& u, Sources now) {
  if (!concerns_index(u)) return {};
  const DType dtype = integer_for(is_narrow(u.src(0)), u.dtype());
  return with_integers(u, now, dtype, dtype);
}

UOp loaded_integer(const UOp& u, Sources now) {
  if (!concerns_index(u)) return {};
  const DType dtype = integer_for(false, u.dtype());
  return with_integers(u, now, dtype, dtype);
}

UOp stored_integer(const UOp& u, Sources now) {
  if (!concerns_index(u)) return {};
  return with_integers(u, now, integer_for(false, u.src(1).dtype()), u.dtype());
}

UOp cast_of_integer(const UOp& u, Sources now) {
  if (!concerns_index(u)) return {};
  if (!u.dtype().is_index()) return now[0].cast(u.dtype());
  return as(now[0], integer_for(is_narrow(u), u.dtype()));
}

UOp same_integer(const UOp& u, Sources now) {
  if (!u.dtype().is_index()) return {};
  return u.replace({.dtype = now[0].dtype(), .src = now});
}

UOp lanes_of_integers(const UOp& u, Sources now) {
  if (!concerns_index(u)) return {};
  return UOp::make(u.op(), now[0].dtype().scalar().vec(u.dtype().lanes()), now, u.arg());
}

UOp on_integers(const UOp& u, Sources now) {
  if (!concerns_index(u)) return {};
  const bool is_index = u.dtype().is_index();
  bool narrow = !is_index || is_narrow(u);
  for (const UOp& s : u.src())
    if (s.dtype().is_index()) narrow &= is_narrow(s);
  UOps operands(now.begin(), now.end());
  for (size_t i = 0; i < operands.size(); i++)
    if (u.src(i).dtype().is_index()) operands[i] = as(operands[i], integer_for(narrow, u.src(i).dtype()));
  return UOp::make(u.op(), is_index ? integer_for(narrow, u.dtype()) : u.dtype(), operands, u.arg(), u.tag());
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

UOp address_in_64_bits(const UOp& u, Sources sources) {
  if (storage_of(u).op() == Op::DEFINE_REG) return {};
  const UOp now = u.with_src(sources);
  if (!position_of(now).dtype().is_index()) return now;
  UOp position = in_64_bits(position_of(now));
  if (has_gate(now)) position = where(gate_of(now), position, UOp::invalid(dtypes::int64));
  return now.with_src(UOps{now.src(0), position});
}

}  // namespace

const Rules addresses_in_64_bits = [] {
  return RuleList{{op(Op::INDEX), address_in_64_bits, "a sum that is an address -> a sum of int64"}};
};

const Rules index_to_integers = [] {
  return RuleList{
      {op((ops::all - ops::elementwise) | OpSet{Op::CAST, Op::BITCAST}), pointer_to_integers,
       "memory of indices -> of int64"},
      {either({op(Op::CONST), invalid()}), constant_to_integer, "a constant index -> an integer"},
      {op(Op::DEFINE_VAR), variable_to_integer, "a variable index -> an integer"},
      {op({Op::RANGE, Op::SPECIAL}), steps_to_integers, "steps -> integers"},
      {op(Op::LOAD), loaded_integer, "an index that is loaded -> int64"},
      {op(Op::STORE), stored_integer, "an index that is stored -> int64"},
      {op(Op::CAST), cast_of_integer, "a cast from or to an index -> from or to an integer"},
      {op({Op::AFTER, Op::NOOP}), same_integer, "what passes an index through -> what passes an integer"},
      {op(Op::GEP), lanes_of_integers, "lanes of indices -> lanes of integers"},
      {op(ops::elementwise | Op::VECTORIZE), on_integers, "arithmetic on indices -> on integers"},
  };
};

}  // namespace quern
