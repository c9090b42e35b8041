#include "quern/codegen/arithmetic/decompose.h"

#include <bit>

namespace quern {
namespace {

UOp negative(const UOp& x) {
  return UOp::make(Op::MUL, x.dtype(), {x, UOp::constant(x.dtype(), wrap(x.dtype().scalar(), -1))});
}
bool may_be(const UOp& x, wide value) { return x.vmin() <= value && value <= x.vmax(); }
bool is_power_of_two(wide v) { return v > 0 && (v & (v - 1)) == 0; }
int log2_of(wide v) { return std::countr_zero(static_cast<uint64_t>(v)); }

// ---- integer division

// A division that hardware can do, or none if it is one already. Results where it cannot: x / 0 is 0, and so
// is x % 0; x / -1 is -x, and wraps.
UOp with_safe_divisor(const UOp& u) {
  const UOp &a = u.src(0), &b = u.src(1);
  const bool modulo = u.op() == Op::TRUNCMOD;
  if (u.dtype().is_signed() && b.equals(-1)) return modulo ? number_like(a, 0) : negative(a);
  const bool zero = may_be(b, 0);
  const bool minus_one = u.dtype().is_signed() && may_be(b, -1) && may_be(a, int_min(u.dtype().scalar()));
  if ((!zero && !minus_one) || b.is_const()) return {};
  // Bounds do not see that the divisor below is none of these: it is marked.
  if (b.hints().safe) return {};
  UOp unsafe = eq(b, number_like(b, 0));
  if (u.dtype().is_signed()) unsafe = unsafe | eq(b, number_like(b, -1));
  const UOp safe = where(unsafe, number_like(b, 1), b).with_hint(&Hints::safe, true);
  UOp result = UOp::make(u.op(), u.dtype(), {a, safe});
  if (modulo) return where(unsafe, number_like(a, 0), result);
  const UOp by_zero = where(eq(b, number_like(b, 0)), number_like(a, 0), result);
  return u.dtype().is_signed() ? where(eq(b, number_like(b, -1)), negative(a), by_zero) : by_zero;
}

UOp floor_division(const UOp& u) {
  const UOp &a = u.src(0), &b = u.src(1);
  const bool modulo = u.op() == Op::FLOORMOD;
  if (b.is_int_const() && is_power_of_two(b.int_value())) {
    if (modulo) return UOp::make(Op::AND, u.dtype(), {a, number_like(a, b.int_value() - 1)});
    return UOp::make(Op::SHR, u.dtype(), {a, number_like(a, log2_of(b.int_value()))});
  }
  const UOp quotient = UOp::make(Op::TRUNCDIV, u.dtype(), {a, b});
  const UOp remainder = UOp::make(Op::TRUNCMOD, u.dtype(), {a, b});
  const bool same_sign = (a.vmin() >= 0 && b.vmin() >= 0) || (a.vmax() <= 0 && b.vmax() <= 0);
  if (same_sign) return modulo ? remainder : quotient;
  const UOp zero = number_like(a, 0);
  // A remainder of the other sign than the divisor: one step further down.
  const UOp inexact = ne(remainder, zero) & ne(remainder < zero, b < zero);
  if (modulo) return UOp::make(Op::ADD, u.dtype(), {remainder, where(inexact, b, zero)});
  return UOp::make(Op::ADD, u.dtype(), {quotient, where(inexact, number_like(a, -1), zero)});
}

// ---- shifts

UOp shift(const UOp& u) {
  const UOp &a = u.src(0), &amount = u.src(1);
  const int width = u.dtype().bits();
  if (amount.vmin() >= 0 && amount.vmax() < width) return {};
  if (amount.hints().safe) return {};
  const UOp last = number_like(amount, width - 1);
  UOp fits = amount <= last;
  if (u.dtype().is_signed()) fits = fits & (number_like(amount, 0) <= amount);
  const UOp safe = where(fits, amount, last).with_hint(&Hints::safe, true);
  UOp result = UOp::make(u.op(), u.dtype(), {a, safe});
  if (u.op() == Op::SHR && u.dtype().is_signed()) return result;  // all signs by then
  return where(fits, result, number_like(a, 0));
}

// ---- powers of integers: squared and multiplied, bit by bit of the exponent

UOp integer_power(const UOp& u) {
  if (!u.dtype().is_int()) return {};
  const UOp &base = u.src(0), &exponent = u.src(1);
  UOp result = number_like(base, 1), square = base;
  const int bits = exponent.dtype().bits() - (exponent.dtype().is_signed() ? 1 : 0);
  for (int i = 0; i < bits && (wide{1} << i) <= exponent.vmax(); i++) {
    const UOp bit = UOp::make(Op::AND, u.dtype(), {exponent, number_like(exponent, wide{1} << i)});
    const UOp more = UOp::make(Op::MUL, u.dtype(), {result, square});
    result = where(ne(bit, number_like(exponent, 0)), more, result);
    square = UOp::make(Op::MUL, u.dtype(), {square, square});
  }
  if (exponent.vmin() >= 0) return result;
  const UOp odd =
      ne(UOp::make(Op::AND, u.dtype(), {exponent, number_like(exponent, 1)}), number_like(exponent, 0));
  const UOp of_minus_one = where(odd, number_like(base, -1), number_like(base, 1));
  const UOp inverse =
      where(eq(base, number_like(base, -1)), of_minus_one,
            where(eq(base, number_like(base, 1)), number_like(base, 1), number_like(base, 0)));
  return where(exponent < number_like(exponent, 0), inverse, result);
}

UOp bool_power(const UOp& u) {  // 0 to the power of 1 is 0, all else is 1
  return u.dtype().is_bool() ? UOp::alu(Op::OR, {u.src(0), ~u.src(1)}) : UOp();
}

// ---- Threefry-2x32 with 20 rounds, as in eval()

UOp threefry(const UOp& u) {
  const DType narrow = dtypes::uint32.vec(u.dtype().lanes());
  auto low = [&](const UOp& x) { return x.cast(narrow); };
  auto high = [&](const UOp& x) { return (x >> number_like(x, 32)).cast(narrow); };
  auto rotated = [](const UOp& x, int by) {
    return (x << number_like(x, by)) | (x >> number_like(x, 32 - by));
  };
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const UOp k0 = low(u.src(1)), k1 = high(u.src(1));
  const UOp keys[] = {k0, k1, (k0 ^ k1) ^ number_like(k0, 0x1BD11BDA)};
  UOp x = low(u.src(0)) + keys[0], y = high(u.src(0)) + keys[1];
  for (size_t group = 1; group <= 5; group++) {
    for (const int by : rotations[(group - 1) % 2]) {
      x = x + y;
      y = rotated(y, by) ^ x;
    }
    x = x + keys[group % 3];
    y = y + keys[(group + 1) % 3] + number_like(y, static_cast<wide>(group));
  }
  return (y.cast(u.dtype()) << number_like(u.src(0), 32)) | x.cast(u.dtype());
}

// ---- bools

UOp of_bools(const UOp& u) {
  if (!u.src().back().dtype().is_bool() || u.op() == Op::WHERE) return {};
  auto is = [&](Op op) { return UOp::alu(op, {u.src(0), u.src(1)}); };
  switch (u.op()) {
    case Op::ADD:
    case Op::MAX: return is(Op::OR);
    case Op::MUL:
    case Op::MIN: return is(Op::AND);
    case Op::SUB:
    case Op::CMPNE: return is(Op::XOR);
    case Op::CMPEQ: return ~is(Op::XOR);
    case Op::CMPLT: return UOp::alu(Op::AND, {~u.src(0), u.src(1)});
    case Op::CMPLE: return UOp::alu(Op::OR, {~u.src(0), u.src(1)});
    case Op::NEG: return u.src(0);
    case Op::TRUNC: return u.src(0);
    case Op::MULACC: return UOp::alu(Op::OR, {UOp::alu(Op::AND, {u.src(0), u.src(1)}), u.src(2)});
    default: return {};
  }
}

UOp integer_multiply_add(const UOp& u) {
  if (!u.dtype().is_int()) return {};
  const UOp product = UOp::make(Op::MUL, u.dtype(), {u.src(0), u.src(1)});
  return UOp::make(Op::ADD, u.dtype(), {product, u.src(2)});
}

UOp truncated_integer(const UOp& u) { return u.dtype().is_int() ? u.src(0) : UOp(); }

}  // namespace

const Rules decompositions = [] {
  const OpSet bools = {Op::ADD,   Op::MUL,   Op::MAX,   Op::MIN, Op::SUB,   Op::CMPNE,
                       Op::CMPEQ, Op::CMPLT, Op::CMPLE, Op::NEG, Op::TRUNC, Op::MULACC};
  return RuleList{
      {op(bools).as("x"), of_bools, "arithmetic of bools -> AND, OR, XOR"},
      {op({Op::FLOORDIV, Op::FLOORMOD}).as("x"), floor_division,
       "rounding down -> rounding towards zero, adjusted"},
      {op({Op::TRUNCDIV, Op::TRUNCMOD}).as("x"), with_safe_divisor,
       "a divisor that may be 0 or -1 -> one that is not"},
      {op({Op::SHL, Op::SHR}).as("x"), shift, "a shift that may be too far -> one that is not"},
      {op(Op::POW).as("x"), integer_power, "a power of integers -> squares and products"},
      {op(Op::POW).as("x"), bool_power, "a power of bools -> OR"},
      {op(Op::THREEFRY).as("x"), threefry, "random bits -> 20 rounds of 32-bit arithmetic"},
      {op(Op::MULACC).as("x"), integer_multiply_add, "a * b + c of integers -> two ops"},
      {op(Op::TRUNC).as("x"), truncated_integer, "an integer, truncated -> itself"},
  };
};

}  // namespace quern
