// Arithmetic, comparisons and bits.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/support.h"

namespace quern {

using detail::apply, detail::binary, detail::is_double, detail::like, detail::matched, detail::multiply_add,
    detail::rarely, detail::if_else;

namespace {

UOp all_ones(DType dtype) { return UOp::constant(dtype, wrap(dtype, -1)); }

const char* const kNoBits = "needs integers or bools";

// A number beside integers stands for its lowest bits, as many as they have: x & 0xffffffff of int32 is x,
// and so is x & -1 of uint8.
Operand lowest_bits(const Operand& number, const Operand& beside) {
  if (number.is_tensor() || !number.is_int() || !beside.is_tensor() || !beside.dtype().is_int())
    return number;
  const DType dtype = beside.dtype();
  return wrap(dtype, number.integer()).integer(dtype);
}

Tensor bits(const char* who, Op op, const Operand& a, const Operand& b) {
  const auto [x, y] = matched(who, lowest_bits(a, b), lowest_bits(b, a));
  if (x.dtype().is_float()) throw DTypeError(fmt::format("{}: {}, given {}", who, kNoBits, x.dtype().name()));
  return apply(op, x, y);
}

Tensor shift(const char* who, Op op, const Operand& a, const Operand& b) {
  const auto [x, y] = matched(who, a, b);
  if (!x.dtype().is_int())
    throw DTypeError(fmt::format("{}: needs integers, given {}", who, x.dtype().name()));
  return apply(op, x, y);
}

// Integers divided by a constant 0 are a mistake that can be seen.
void check_divisor(const char* who, const Tensor& x, const Operand& divisor) {
  if (!x.dtype().is_float() && !divisor.is_tensor() && divisor.constant(x.dtype()).equals(0))
    throw ValueError(fmt::format("{}: division of integers by 0", who));
}

// Division of integers. UOp::alu refuses a CONST 0 as the divisor; here it is expanded, and gives 0 by
// definition.
Tensor divide_integers(const char* who, Op op, const Tensor& x, const Tensor& y, const Operand& divisor) {
  check_divisor(who, x, divisor);
  if (x.dtype().is_bool()) throw DTypeError(fmt::format("{}: bools cannot be divided; cast them", who));
  return apply(op, x, y);
}

// The value of a number that is an integer: it fits one of both.
wide integer_of(const Operand& number) {
  const bool negative = number.constant(dtypes::float64).value().as_float() < 0;
  const DType holds = negative ? dtypes::int64 : dtypes::uint64;
  return number.constant(holds).value().integer(holds);
}

// int64 beside uint64: no integer holds the values of both, so those below 0 are told apart by themselves.
bool is_mixed(const Operand& a, const Operand& b) {
  return a.is_tensor() && b.is_tensor() && a.dtype().is_signed() && a.dtype().is_int() &&
         b.dtype() == dtypes::uint64;
}
Tensor compared_mixed(const char* who, Op op, const Tensor& with_sign, const Tensor& other, bool swapped) {
  const Shape shape = detail::broadcast_shape(who, {with_sign, other});
  const Tensor x = detail::broadcast_to(who, with_sign, shape), y = detail::broadcast_to(who, other, shape);
  const Tensor bits = x.cast(dtypes::uint64), zero = like(x, 0);
  const Tensor both = swapped ? apply(op, y, bits) : apply(op, bits, y);
  const bool below = op == Op::CMPNE || (op != Op::CMPEQ && !swapped);  // the answer where x is below 0
  const Tensor negative = apply(Op::CMPLT, x, zero);
  return if_else(negative, detail::number(below, dtypes::bool_, shape), both);
}

// An integer that the dtype of a tensor cannot hold is on one side of all its elements.
Tensor compared(const char* who, Op op, const Operand& a, const Operand& b) {
  const Operand& number = a.is_tensor() ? b : a;
  if (a.is_tensor() != b.is_tensor() && number.is_int()) {
    const Tensor& x = a.is_tensor() ? a.tensor() : b.tensor();
    const DType dtype = number.dtype_beside(x.dtype());
    const wide value = integer_of(number);
    if (dtype.is_int() && !fits(dtype, value)) {
      const bool less = (value < 0) == b.is_tensor();  // a < b
      return Tensor::full(x.shape(), op == Op::CMPNE || (op != Op::CMPEQ && less));
    }
  }
  if (is_mixed(a, b) || is_mixed(b, a)) {
    detail::check_same_device(who, {a.tensor(), b.tensor()});
    return is_mixed(a, b) ? compared_mixed(who, op, a.tensor(), b.tensor(), false)
                          : compared_mixed(who, op, b.tensor(), a.tensor(), true);
  }
  return binary(who, op, a, b);
}

Tensor is_infinite(const Tensor& x) { return x.abs().eq(std::numeric_limits<double>::infinity()); }

// How a dividend is brought near its divisor y: so many rounds by y * 2^shift, then so many by y itself. A
// round divides, rounds and takes off, which is exact, and leaves a quotient of 2^-digits of what it was.
struct Rounds {
  int shift = 0, shifted = 0, plain = 0;
};

// Enough rounds for all quotients of float32 and narrower types, and of float64 for those below 2^300.
Rounds rounds_for(DType dtype, const Operand& divisor) {
  const bool narrow = dtype.bits() <= 16 && dtype != dtypes::bfloat16, wide = dtype == dtypes::float64;
  const int digits = wide ? 53 : 24, top = narrow ? 16 : wide ? 1024 : 128, lowest = narrow ? -24 : 2 - top;
  int least = lowest;  // the exponent of the divisor
  if (!divisor.is_tensor()) {
    const double y = std::abs(divisor.constant(dtypes::float64).value().as_float());
    if (y == 0 || !std::isfinite(y)) return {};
    least = std::max(std::ilogb(y), lowest);
  }
  constexpr int kMost = 6;
  const auto rounds = [&](int bits) { return std::min((bits + digits - 1) / digits, kMost); };
  const int bits = top - least;
  if (bits <= top || narrow) return {.plain = rounds(bits) - 1};  // x / y does not overflow
  const int shift = std::min(top - 1, kMost * digits);
  return {.shift = shift, .shifted = rounds(bits - shift), .plain = rounds(shift) - 1};
}

// x less whole multiples of y, so that what is left is less than 2^24 (float64: 2^53) times y. The nearest
// float of a quotient, times the divisor, differs from the dividend by a float: each step is exact. Whole
// numbers have no gradient.
Tensor brought_near(const Tensor& x, const Tensor& y, const Rounds& rounds) {
  Tensor rest = x;
  const auto take_off = [&](const Tensor& divisor) {
    rest =
        multiply_add(apply(Op::TRUNC, apply(Op::FDIV, rest.detach(), divisor.detach())).neg(), divisor, rest);
  };
  if (rounds.shifted > 0) {
    const Tensor shifted = y * if_else(y.abs().lt(1), like(y, std::ldexp(1.0, rounds.shift)), like(y, 1));
    for (int i = 0; i < rounds.shifted; i++) take_off(shifted);
  }
  for (int i = 0; i < rounds.plain; i++) take_off(y);
  return rest;
}

using DivideFloats = Tensor (*)(const Tensor& x, const Tensor& y, const Rounds& rounds);

// Division with a remainder, of floats. Narrow ones are computed in float32, which holds their quotients.
Tensor divided_floats(const Tensor& x, const Tensor& y, const Operand& divisor, DivideFloats f) {
  const Rounds rounds = rounds_for(x.dtype(), divisor);
  if (x.dtype().bits() >= 32) return f(x, y, rounds);
  return f(x.cast(dtypes::float32), y.cast(dtypes::float32), rounds).cast(x.dtype());
}

// x = quotient y + rest, exactly where |x / y| < 2^24 (float64: 2^53).
struct Division {
  Tensor quotient, rest;
};

// The quotient is cut towards 0, and the rest has the sign of x. A quotient that was rounded to the wrong
// integer leaves a rest off by y, which the two corrections repair.
Division divided(const Tensor& x, const Tensor& y, const Tensor& sign) {
  const Tensor size = y.abs(), zero = like(x, 0), one = like(x, 1);
  const Tensor q = apply(Op::TRUNC, apply(Op::FDIV, x, y)), r = multiply_add(q.neg(), y, x);
  const Tensor step = if_else(sign.lt(0) ^ y.lt(0), one.neg(), one),
               part = if_else(sign.lt(0), size.neg(), size);
  const Tensor too_far = (sign.lt(0) & r.gt(0)) | (sign.gt(0) & r.lt(0));
  const Tensor back = if_else(too_far, r + part, r), short_of = back.abs().ge(size);
  return {q - if_else(too_far, step, zero) + if_else(short_of, step, zero),
          if_else(short_of, back - part, back)};
}

Tensor float_fmod(const Tensor& x, const Tensor& y, const Rounds& rounds) {
  // Most quotients are small: only of the others the dividend is brought near first.
  const Tensor near = divided(x, y, x).rest;
  const bool is_near = rounds.shifted == 0 && rounds.plain == 0;
  const Tensor rest = is_near
                          ? near
                          : rarely(apply(Op::FDIV, x, y).detach().abs().ge(is_double(x) ? 0x1p53 : 0x1p24),
                                   divided(brought_near(x, y, rounds), y, x).rest, near);
  const Tensor none = x * like(x, 0);  // a zero has the sign of the dividend
  // A rest that is not less than the divisor would have taken more rounds than there are: it is unknown.
  const Tensor known = rest.abs().lt(y.abs()) | y.isnan();
  const Tensor zero =
      (rest.neg() + none.neg()).neg();  // the rest, with that sign; its slopes are those of a rest
  const Tensor r = if_else(known, if_else(rest.ne(0), rest, zero), none);
  return if_else(is_infinite(y) & x.isfinite(), x, if_else(y.eq(0), like(x, std::nan("")), r));
}

Tensor float_mod(const Tensor& x, const Tensor& y, const Rounds& rounds) {
  const Tensor r = float_fmod(x, y, rounds);
  const Tensor other_side = r.ne(0) & (r.lt(0) ^ y.lt(0));
  return if_else(other_side, r + y, r);
}

// An infinite divisor leaves 0, or -1 where the signs differ. From 2^24 on (float64: 2^53) floats are whole.
Tensor float_floordiv(const Tensor& x, const Tensor& y, const Rounds& /*rounds*/) {
  const Division d = divided(x, y, x);
  const Tensor zero = like(x, 0), one = like(x, 1), differ = x.lt(0) ^ y.lt(0), ratio = apply(Op::FDIV, x, y);
  const Tensor finite = if_else(ratio.abs().ge(is_double(x) ? 0x1p53 : 0x1p24), apply(Op::TRUNC, ratio),
                                d.quotient - if_else(differ & d.rest.ne(0), one, zero));
  const Tensor beyond = if_else(differ & x.ne(0), one.neg(), zero);
  return if_else(y.eq(0) | x.isfinite().logical_not(), ratio, if_else(is_infinite(y), beyond, finite));
}
Tensor float_truncdiv(const Tensor& x, const Tensor& y, const Rounds& /*rounds*/) {
  return apply(Op::TRUNC, apply(Op::FDIV, x, y));
}

}  // namespace

Tensor Tensor::add(const Operand& other) const { return binary("add", Op::ADD, *this, other); }
Tensor Tensor::sub(const Operand& other) const { return binary("sub", Op::SUB, *this, other); }
Tensor Tensor::mul(const Operand& other) const { return binary("mul", Op::MUL, *this, other); }
Tensor Tensor::maximum(const Operand& other) const { return binary("maximum", Op::MAX, *this, other); }
Tensor Tensor::minimum(const Operand& other) const { return binary("minimum", Op::MIN, *this, other); }
Tensor Tensor::bitwise_and(const Operand& other) const { return bits("bitwise_and", Op::AND, *this, other); }
Tensor Tensor::bitwise_or(const Operand& other) const { return bits("bitwise_or", Op::OR, *this, other); }
Tensor Tensor::bitwise_xor(const Operand& other) const { return bits("bitwise_xor", Op::XOR, *this, other); }
Tensor Tensor::lshift(const Operand& other) const { return shift("lshift", Op::SHL, *this, other); }
Tensor Tensor::rshift(const Operand& other) const { return shift("rshift", Op::SHR, *this, other); }
Tensor Tensor::eq(const Operand& other) const { return compared("eq", Op::CMPEQ, *this, other); }
Tensor Tensor::ne(const Operand& other) const { return compared("ne", Op::CMPNE, *this, other); }
Tensor Tensor::lt(const Operand& other) const { return compared("lt", Op::CMPLT, *this, other); }
Tensor Tensor::le(const Operand& other) const { return compared("le", Op::CMPLE, *this, other); }
Tensor Tensor::gt(const Operand& other) const { return compared("gt", Op::CMPLT, other, *this); }
Tensor Tensor::ge(const Operand& other) const { return compared("ge", Op::CMPLE, other, *this); }

Tensor Tensor::div(const Operand& other, const std::string& rounding) const {
  if (rounding == "floor") return floordiv(other);
  if (!rounding.empty() && rounding != "trunc")
    throw ValueError(fmt::format(R"(div: rounding "{}" is not "", "floor" or "trunc")", rounding));
  const auto [x, y] = matched("div", *this, other);
  if (rounding == "trunc")
    return x.is_floating_point() ? divided_floats(x, y, other, float_truncdiv)
                                 : divide_integers("div", Op::TRUNCDIV, x, y, other);
  return apply(Op::FDIV, detail::to_float(x), detail::to_float(y));
}

Tensor Tensor::floordiv(const Operand& other) const {
  const auto [x, y] = matched("floordiv", *this, other);
  if (!x.is_floating_point()) return divide_integers("floordiv", Op::FLOORDIV, x, y, other);
  return divided_floats(x, y, other, float_floordiv);
}

Tensor Tensor::mod(const Operand& other) const {
  const auto [x, y] = matched("mod", *this, other);
  return x.is_floating_point() ? divided_floats(x, y, other, float_mod)
                               : divide_integers("mod", Op::FLOORMOD, x, y, other);
}

Tensor Tensor::fmod(const Operand& other) const {
  const auto [x, y] = matched("fmod", *this, other);
  return x.is_floating_point() ? divided_floats(x, y, other, float_fmod)
                               : divide_integers("fmod", Op::TRUNCMOD, x, y, other);
}

Tensor Tensor::pow(const Operand& exponent) const {
  const auto [x, y] = matched("pow", *this, exponent);
  if (!exponent.is_tensor()) {
    const UOp e = exponent.constant(y.dtype());
    if (x.dtype().is_float() ? e.value().as_float() == 2 : e.equals(2)) return x * x;
    if (!x.dtype().is_float() && e.int_value() < 0)
      throw ValueError(
          fmt::format("pow: an integer to the power {}; cast it to a float first", to_string(e.int_value())));
  }
  if (x.dtype().bits() < 32 && x.dtype().is_float())
    return apply(Op::POW, x.cast(dtypes::float32), y.cast(dtypes::float32)).cast(x.dtype());
  return apply(Op::POW, x, y);
}

Tensor Tensor::where(const Operand& yes, const Operand& no) const {
  if (!dtype().is_bool())
    throw DTypeError(fmt::format("where: the condition must be bool, given {}", detail::text(*this)));
  const auto [x, y] = matched("where", yes, no);
  const Shape shape = detail::broadcast_shape("where", {*this, x, y});
  detail::check_same_device("where", {*this, x, y});
  return if_else(detail::broadcast_to("where", *this, shape), detail::broadcast_to("where", x, shape),
                 detail::broadcast_to("where", y, shape));
}

Tensor Tensor::lerp(const Tensor& end, const Operand& weight) const {
  if (!is_floating_point() || !end.is_floating_point())
    throw DTypeError(
        fmt::format("lerp: needs floats, given {} and {}", detail::text(*this), detail::text(end)));
  const auto [x, y] = matched("lerp", *this, end);
  const DType computed = detail::sum_dtype(x.dtype());
  const Tensor a = x.cast(computed), b = y.cast(computed);
  const Operand part = weight.is_tensor() ? Operand(weight.tensor().cast(computed)) : weight;
  return (a + (b - a) * part).cast(x.dtype());
}

// A value at a bound is its own, and so is the gradient there, which maximum() and minimum() would halve.
Tensor Tensor::clamp_min(const Operand& min) const {
  const auto [x, least] = matched("clamp", *this, min);
  return if_else(x.lt(least) | least.isnan(), least, x);
}
Tensor Tensor::clamp_max(const Operand& max) const {
  const auto [x, most] = matched("clamp", *this, max);
  return if_else(x.gt(most) | most.isnan(), most, x);
}
Tensor Tensor::clamp(const Operand& min, const Operand& max) const { return clamp_min(min).clamp_max(max); }

Tensor Tensor::neg() const { return dtype().is_bool() ? logical_not() : apply(Op::NEG, *this); }
Tensor Tensor::logical_not() const { return cast(dtypes::bool_).eq(false); }
Tensor Tensor::bitwise_not() const {
  if (dtype().is_float()) throw DTypeError(fmt::format("bitwise_not: {}, given {}", kNoBits, dtype().name()));
  return dtype().is_bool() ? logical_not()
                           : apply(Op::XOR, *this, Tensor(quern::full(uop().shape(), all_ones(dtype()))));
}

// max(x, -x): +0 of -0, NaN of NaN, and its gradient at 0 is 0.
Tensor Tensor::abs() const {
  if (dtype().is_bool() || dtype().is_unsigned()) return detail::own_value(*this);
  return apply(Op::MAX, *this, neg());
}

Tensor Tensor::sign() const {
  if (dtype().is_bool()) return detail::own_value(*this);
  const Tensor zero = like(*this, 0), one = like(*this, 1);
  if (dtype().is_unsigned()) return if_else(eq(0), zero, one);
  const Tensor sign = if_else(lt(0), one.neg(), if_else(gt(0), one, zero));
  return dtype().is_float() ? if_else(isnan(), *this, sign) : sign;
}

Tensor Tensor::copysign(const Operand& other) const {
  auto [x, y] = matched("copysign", *this, other);
  x = detail::to_float(x), y = detail::to_float(y);
  // The sign of a zero shows in its reciprocal, where the type has an infinity.
  const Tensor infinite = y.dtype().bits() < 32 ? y.cast(dtypes::float32) : y;
  const Tensor negative = y.lt(0) | (y.eq(0) & apply(Op::RECIP, infinite).lt(0));
  return if_else(negative, x.abs().neg(), x.abs());
}

Tensor Tensor::square() const { return *this * *this; }
Tensor Tensor::reciprocal() const { return apply(Op::RECIP, detail::to_float(*this)); }
Tensor Tensor::sqrt() const { return apply(Op::SQRT, detail::to_float(*this)); }
Tensor Tensor::rsqrt() const {
  return detail::in_wide_float(*this, [](const Tensor& x) { return apply(Op::RECIP, apply(Op::SQRT, x)); });
}

Tensor Tensor::trunc() const {
  return dtype().is_float() ? apply(Op::TRUNC, *this) : detail::own_value(*this);
}
Tensor Tensor::floor() const {
  if (!dtype().is_float()) return detail::own_value(*this);
  const Tensor whole = trunc();
  return if_else(lt(whole), whole - 1, whole);
}
Tensor Tensor::ceil() const {
  if (!dtype().is_float()) return detail::own_value(*this);
  const Tensor whole = trunc();
  return if_else(gt(whole), whole + 1, whole);
}
Tensor Tensor::round() const {
  if (!dtype().is_float()) return detail::own_value(*this);
  const Tensor whole = trunc(), half = whole * 0.5;
  const Tensor rest = (*this - whole).abs();  // exact
  const Tensor away = whole + if_else(lt(0), like(*this, -1), like(*this, 1));
  const Tensor odd = half.ne(half.trunc());
  const Tensor rounded = if_else(rest.gt(0.5) | (rest.eq(0.5) & odd), away, whole);
  return if_else(isfinite(), rounded, *this);
}

Tensor Tensor::isnan() const { return dtype().is_float() ? ne(*this) : Tensor::full(shape(), false); }
Tensor Tensor::isinf() const {
  if (!dtype().is_float() || dtype() == dtypes::fp8e4m3)
    return Tensor::full(shape(), false);  // it has no infinity
  return is_infinite(*this);
}
Tensor Tensor::isfinite() const {
  if (!dtype().is_float()) return Tensor::full(shape(), true);
  return (isnan() | isinf()).logical_not();
}

Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  if (rtol < 0 || atol < 0)
    throw ValueError(fmt::format("isclose: rtol {} and atol {} must not be negative", rtol, atol));
  const auto [a, b] = matched("isclose", *this, other);
  const Tensor x = detail::to_float(a), y = detail::to_float(b);
  const Tensor near = x.isfinite() & y.isfinite() & (x - y).abs().le(y.abs() * rtol + atol);
  const Tensor equal = x.eq(y) | near;
  return equal_nan ? equal | (x.isnan() & y.isnan()) : equal;
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return isclose(other, rtol, atol, equal_nan).all().item<bool>();
}

Tensor Tensor::threefry(const Tensor& key) const {
  if (dtype() != dtypes::uint64 || key.dtype() != dtypes::uint64)
    throw DTypeError(fmt::format("threefry: counter and key must be uint64, given {} and {}", dtype().name(),
                                 key.dtype().name()));
  return binary("threefry", Op::THREEFRY, *this, key);
}

}  // namespace quern
