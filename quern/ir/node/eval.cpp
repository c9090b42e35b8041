#include "quern/ir/node/eval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "quern/base/error.h"

namespace quern {

namespace {

[[noreturn]] void undefined(Op op, DType dtype) {
  check_failed("the op is defined on the dtype", __FILE__, __LINE__,
               fmt::format("{} of {}", name(op), dtype.name()));
}

template <class Number>
bool compare(Op op, Number a, Number b) {
  switch (op) {
    case Op::CMPEQ: return a == b;
    case Op::CMPNE: return a != b;
    case Op::CMPLT: return a < b;
    default: return a <= b;
  }
}

// ---- Integers: computed as 64-bit patterns, and wrapped to their width by the caller. Where the value
// matters and not only the pattern, Number is uint64_t for uint64, and int64_t, that holds all of their
// values, for the others.

template <class Number>
uint64_t divide(Op op, Number a, Number b) {
  if (b == 0) return 0;
  const bool modulo = op == Op::FLOORMOD || op == Op::TRUNCMOD;
  // The one quotient that does not fit is that of the least integer and -1.
  if (std::is_signed_v<Number> && b == static_cast<Number>(-1)) return modulo ? 0 : -static_cast<uint64_t>(a);
  Number quotient = a / b, remainder = a % b;
  const bool floor = op == Op::FLOORDIV || op == Op::FLOORMOD;
  if (floor && remainder != 0 && (a < 0) != (b < 0)) quotient -= 1, remainder += b;
  return static_cast<uint64_t>(modulo ? remainder : quotient);
}

template <class Number>
uint64_t shift_right(Number a, Number amount, int bits) {
  if (amount < 0 || amount >= static_cast<Number>(bits)) return a < 0 ? ~uint64_t{0} : 0;
  return static_cast<uint64_t>(a >> amount);
}

template <class Number>
uint64_t power(Number base, Number exponent) {
  if (exponent < 0) {
    if (base == static_cast<Number>(-1)) return exponent % 2 == 0 ? 1 : ~uint64_t{0};
    return base == 1 ? 1 : 0;
  }
  uint64_t result = 1;
  auto square = static_cast<uint64_t>(base);
  for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1, square *= square)
    if (left & 1) result *= square;
  return result;
}

// Threefry-2x32 with 20 rounds, of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".
uint64_t threefry(uint64_t counter, uint64_t key) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[] = {low, high, 0x1BD11BDA ^ low ^ high};
  uint32_t x = static_cast<uint32_t>(counter) + keys[0], y = static_cast<uint32_t>(counter >> 32) + keys[1];
  for (uint32_t group = 1; group <= 5; group++) {
    for (const int rotation : rotations[(group - 1) % 2]) {
      x += y;
      y = std::rotl(y, rotation) ^ x;
    }
    x += keys[group % 3];
    y += keys[(group + 1) % 3] + group;
  }
  return uint64_t{y} << 32 | x;
}

template <class Number>
uint64_t eval_integer(Op op, DType in, uint64_t a, uint64_t b, uint64_t c) {
  const auto x = static_cast<Number>(a), y = static_cast<Number>(b);
  switch (op) {
    case Op::NEG: return -a;
    case Op::TRUNC: return a;
    case Op::ADD: return in.is_bool() ? a | b : a + b;
    case Op::SUB: return a - b;
    case Op::MUL: return a * b;
    case Op::MULACC: return in.is_bool() ? (a & b) | c : a * b + c;
    case Op::MAX: return static_cast<uint64_t>(std::max(x, y));
    case Op::MIN: return static_cast<uint64_t>(std::min(x, y));
    case Op::AND: return a & b;
    case Op::OR: return a | b;
    case Op::XOR: return a ^ b;
    case Op::FLOORDIV:
    case Op::FLOORMOD:
    case Op::TRUNCDIV:
    case Op::TRUNCMOD: return divide(op, x, y);
    case Op::SHL: return b < static_cast<uint64_t>(in.bits()) ? a << b : 0;
    case Op::SHR: return shift_right(x, y, in.bits());
    case Op::POW: return power(x, y);
    case Op::THREEFRY:
      if (in.kind() == Scalar::UInt64) return threefry(a, b);
      [[fallthrough]];
    default: undefined(op, in);
  }
}

// ---- Floats: every value is exact in a double. A sum, product, quotient or root of floats of up to 24 bits,
// taken in double and rounded again, is the one rounded once; a fused multiply-add is not.

double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}

double multiply_add(DType dtype, double a, double b, double c) {
  if (dtype.kind() == Scalar::Float64) return std::fma(a, b, c);
  if (dtype.kind() == Scalar::Float32)
    return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
  // The product of narrow floats is exact, and so is the error of the sum. If there is one, the last bit of
  // the sum is made odd, on the side of the true value, to keep the rounding that follows from seeing a tie
  // that is none.
  const double product = a * b, sum = product + c;
  const double rest = sum - product;
  const double error = (product - (sum - rest)) + (c - rest);
  const auto bits = std::bit_cast<uint64_t>(sum);
  if (!std::isfinite(sum) || error == 0 || (bits & 1) != 0) return round_float(dtype, sum);
  return round_float(dtype, std::bit_cast<double>((error < 0) == (sum < 0) ? bits + 1 : bits - 1));
}

double eval_float(Op op, DType in, double a, double b, double c) {
  switch (op) {
    case Op::NEG: return -a;
    case Op::TRUNC: return std::trunc(a);
    case Op::MAX: return maximum(a, b);
    case Op::MIN: return -maximum(-a, -b);
    case Op::RECIP: return round_float(in, 1 / a);
    case Op::SQRT: return round_float(in, std::sqrt(a));
    case Op::EXP2: return round_float(in, std::exp2(a));
    case Op::LOG2: return round_float(in, std::log2(a));
    case Op::SIN: return round_float(in, std::sin(a));
    case Op::COS: return round_float(in, std::cos(a));
    case Op::ADD: return round_float(in, a + b);
    case Op::SUB: return round_float(in, a - b);
    case Op::MUL: return round_float(in, a * b);
    case Op::FDIV: return round_float(in, a / b);
    case Op::POW: return round_float(in, std::pow(a, b));
    case Op::MULACC: return multiply_add(in, a, b, c);
    default: undefined(op, in);
  }
}

}  // namespace

Const eval(Op op, DType out, DType in, std::span<const Const> args) {
  QUERN_CHECK(is_elementwise(op) && static_cast<int>(args.size()) == info(op).least_sources,
              fmt::format("{} on {} constants", name(op), args.size()));
  if (op == Op::WHERE) return args[0].is_invalid() ? args[0] : args[args[0].as_bool() ? 1 : 2];
  if (out.is_bool() && (op == Op::AND || op == Op::OR)) {
    const Const deciding = Const::of_bool(op == Op::OR);
    if (args[0] == deciding || args[1] == deciding) return deciding;
  }
  for (const Const& arg : args)
    if (arg.is_invalid()) return arg;
  if (op == Op::CAST) return convert(args[0], in, out);
  if (op == Op::BITCAST) return from_bits(to_bits(args[0], in), out);

  const Const a = args[0], b = args.size() > 1 ? args[1] : Const(), c = args.size() > 2 ? args[2] : Const();
  const bool is_uint64 = in.kind() == Scalar::UInt64;
  if (is_comparison(op)) {
    if (in.is_float()) return Const::of_bool(compare(op, a.as_float(), b.as_float()));
    if (!is_uint64) return Const::of_bool(compare(op, a.as_int(), b.as_int()));
    return Const::of_bool(compare(op, static_cast<uint64_t>(a.as_int()), static_cast<uint64_t>(b.as_int())));
  }
  if (in.is_float()) return Const::of_float(eval_float(op, in, a.as_float(), b.as_float(), c.as_float()));
  const auto x = static_cast<uint64_t>(a.as_int()), y = static_cast<uint64_t>(b.as_int());
  const auto z = static_cast<uint64_t>(c.as_int());
  return wrap(out, static_cast<wide>(is_uint64 ? eval_integer<uint64_t>(op, in, x, y, z)
                                               : eval_integer<int64_t>(op, in, x, y, z)));
}

Const identity_element(Op op, DType dtype) {
  if (!dtype.is_bool() && !dtype.is_int() && !dtype.is_float())
    throw DTypeError(fmt::format("{} has no values to reduce", dtype.name()));
  switch (op) {
    case Op::ADD: return make_const(dtype, 0);
    case Op::MUL: return make_const(dtype, 1);
    case Op::MAX: return min_value(dtype);
    case Op::MIN: return max_value(dtype);
    case Op::AND:
    case Op::OR:
    case Op::XOR:
      if (!dtype.is_float()) return op == Op::AND ? wrap(dtype, -1) : make_const(dtype, 0);
      [[fallthrough]];
    default: throw DTypeError(fmt::format("{} of {} has no identity element", name(op), dtype.name()));
  }
}

}  // namespace quern
