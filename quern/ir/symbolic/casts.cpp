// Casts and bitcasts.
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

// Bits of whole numbers that the dtype holds exactly (the sign not counted).
int exact_bits(DType d) {
  switch (d.kind()) {
    case Scalar::Bool: return 1;
    case Scalar::FP8E5M2: return 3;
    case Scalar::FP8E4M3: return 4;
    case Scalar::BFloat16: return 8;
    case Scalar::Float16: return 11;
    case Scalar::Float32: return 24;
    case Scalar::Float64: return 53;
    default: return d.is_unsigned() ? d.bits() : d.bits() - 1;
  }
}

// Is every value of `a` a value of `b`?
bool holds_all(DType a, DType b) {
  if (a.scalar() == b.scalar()) return true;
  if (a.is_bool()) return true;
  if (b.is_bool() || (a.is_float() && !b.is_float())) return false;
  if (a.is_float()) {
    if (b.kind() == Scalar::Float64) return true;
    if (b.kind() == Scalar::Float32) return a.kind() != Scalar::Float64;
    return a.is_fp8() && (b.kind() == Scalar::Float16 || b.kind() == Scalar::BFloat16);
  }
  if (a.is_signed() && b.is_unsigned()) return false;
  return exact_bits(a) <= exact_bits(b);
}

// Through a type that holds every value of the first, straight to the last. An integer that goes through a
// float saturates where it would wrap, so then the last type has to hold it, or be a float.
UOp skip_middle(const UOp& outer, const UOp& inner, const UOp& x) {
  const DType from = x.dtype(), middle = inner.dtype(), to = outer.dtype();
  if (from.is_ptr() || to.is_ptr() || !holds_all(from, middle)) return {};
  if (!from.is_float() && middle.is_float() && !to.is_float() && !to.is_bool() && !holds_all(from, to))
    return {};
  return x.cast(to);
}

// Bits go through any integer as they are; through a float not all of them, because there is one NaN.
UOp skip_bits(const UOp& outer, const UOp& inner, const UOp& x) {
  return inner.dtype().is_float() && inner.dtype() != x.dtype() ? UOp() : x.bitcast(outer.dtype());
}

UOp cast_to_own_dtype(const UOp& u, const UOp& x) { return u.dtype() == x.dtype() ? x : UOp(); }

UOp cast_to_bool(const UOp& u, const UOp& x) {
  if (!u.dtype().is_bool() || x.dtype().is_bool() || x.dtype().is_ptr()) return {};
  return ne(x, x.dtype().is_float() ? UOp::constant(x.dtype(), 0.0) : x.const_like(0));
}

// A cast bool compared with a number is the bool, its opposite, or known.
UOp compare_cast_bool(const UOp& u, const UOp& a, const UOp& c) {
  const bool when_false =
      u.op() == Op::CMPLT ? 0 < c.int_value() : (c.int_value() == 0) == (u.op() == Op::CMPEQ);
  const bool when_true =
      u.op() == Op::CMPLT ? 1 < c.int_value() : (c.int_value() == 1) == (u.op() == Op::CMPEQ);
  if (when_false == when_true) return UOp::constant(u.dtype(), Const::of_bool(when_true));
  return when_true ? a : ~a;
}

}  // namespace

const Rules casts = [] {
  const Pat x = var("x", types::values), a = bools("a"), c0 = int_const("c0"), i = ints("i");
  return RuleList{
      {op({Op::CAST, Op::BITCAST}, {x}).as("u"), cast_to_own_dtype, "cast(x) to its own dtype -> x"},
      {op(Op::CAST, {op(Op::CAST, {x}).as("inner")}).as("outer"), skip_middle, "cast(cast(x)) -> cast(x)"},
      {op(Op::BITCAST, {op(Op::BITCAST, {x}).as("inner")}).as("outer"), skip_bits,
       "bitcast(bitcast(x)) -> bitcast(x)"},
      {op(Op::CAST, {x}).of(types::bools).as("u"), cast_to_bool, "cast(x) to bool -> x != 0"},
      {op({Op::CMPLT, Op::CMPEQ, Op::CMPNE}, {op(Op::CAST, {a}), c0}).as("u"), compare_cast_bool,
       "cast(bool) == 1 -> bool"},
      {op(Op::CAST, {a}).of(types::ints) * i, where(a, i, 0)},
  };
};

}  // namespace quern
