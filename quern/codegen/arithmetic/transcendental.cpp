#include "quern/codegen/arithmetic/transcendental.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "quern/codegen/analysis/not_positive.h"
#include "quern/codegen/arithmetic/float64_functions.h"
#include "quern/codegen/arithmetic/write.h"

namespace quern {
namespace arithmetic {
namespace {

// 2^k as a float32, -126 <= k <= 127.
UOp power_of_two(const UOp& k) { return as_float32((k + integer(k, 127)) << integer(k, 23)); }

// ---- 2^x: x = n + r with n whole and |r| <= 1/2; 2^r = 1 + r * ln2 + r^2 * p(r)

UOp exp2_float32(const UOp& exp2) {
  const UOp& given = exp2.src(0);
  constexpr double ln2 = 0x1.62e430p-1;  // NOLINT(modernize-use-std-numbers): as a float32
  constexpr std::array p = {0x1.ebfbe0p-3,  0x1.c6b08ep-5,  0x1.3b2a1cp-7,
                            0x1.5d879ep-10, 0x1.444000p-13, 0x1.00a582p-16};
  // Beyond these the result is 0 or infinite, whatever it is exactly.
  const UOp low = number_like(given, -151.0), high = number_like(given, 129.0);
  const UOp x = where(given < low, low, where(high < given, high, given));
  // Adding 1.5 * 2^23 leaves a whole number in the last bits.
  const UOp magic = number_like(x, 0x1.8p23), shifted = x + magic;
  const UOp n = as_int32(shifted) - as_int32(magic), r = minus(x, minus(shifted, magic));
  // What is lost when the large terms are added is added to the small ones.
  const UOp linear = r * number_like(x, ln2), one = number_like(x, 1.0), large = one + linear;
  const UOp fraction = large + (minus(linear, minus(large, one)) + (r * r) * polynomial(false, r, p));
  // In two steps, since 2^n may be no normal number; only the second may round.
  const UOp half = n >> integer(n, 1);
  const UOp result = fraction * power_of_two(half) * power_of_two(n - half);
  return where(ne(given, given), given, result);
}

// The same with products that are not rounded: 2^r = 1 + r * q(r). The last coefficients go in pairs, so that
// no step waits long for the one before.
UOp exp2_fused(const UOp& exp2) {
  const UOp& given = exp2.src(0);
  // NOLINTNEXTLINE(modernize-use-std-numbers): one that fits, not the constant
  constexpr std::array q = {0x1.62e430p-1, 0x1.ebfbdcp-3,  0x1.c6aee8p-5,
                            0x1.3b2d4ap-7, 0x1.5f3e2cp-10, 0x1.41fd02p-13};
  const bool below_one = is_of_not_positive(exp2);
  const UOp low = number_like(given, -151.0), high = number_like(given, 129.0);
  UOp x = where(given < low, low, given);  // one instruction each, that leaves NaN as it is
  if (!below_one) x = where(high < x, high, x);
  // The last bits of what is shifted are n + bias, which is an exponent with its own bias already.
  // Both are even, so that halves are rounded to the same n: marked or not, the result is the same.
  const int bias = below_one ? 127 + 65 : 2 * 127;
  const UOp magic = number_like(x, 0x1.8p23 + bias), shifted = x + magic, bits = as_int32(shifted);
  const UOp r = minus(x, minus(shifted, magic)), square = r * r;
  const auto pair = [&](size_t i) {
    return multiply_add(true, number_like(x, q[i + 1]), r, number_like(x, q[i]));
  };
  UOp sum = multiply_add(true, pair(4), square, pair(2));
  for (const size_t i : {1, 0})
    sum = multiply_add(true, sum, r, number_like(x, q[i]));  // rounded once for each
  // 2^n in two steps, since it may be no normal number; only the second may round.
  const UOp all = bits << integer(bits, 23);
  const UOp half = below_one ? all : (bits << integer(bits, 22)) & integer(bits, 0x7f800000);
  const UOp first = as_float32(half), second = below_one ? number_like(x, 0x1p-65) : as_float32(all - half);
  return multiply_add(true, sum, r * first, first) * second;  // NaN, if that is given
}

// Where the hardware scales by powers of two, the renderer has a shorter one for vectors. This is the same
// for one number, to the bit, in arithmetic that LLVM makes vectors of.
UOp exp2_of_hardware(const UOp& exp2) {
  if (exp2.dtype().lanes() > 1) return {};
  const UOp& given = exp2.src(0);
  // NOLINTNEXTLINE(modernize-use-std-numbers): one that fits, not the constant
  constexpr std::array q = {1.0,           0x1.62e430p-1,  0x1.ebfbdcp-3, 0x1.c6aee8p-5,
                            0x1.3b2d4ap-7, 0x1.5f3e2cp-10, 0x1.41fd02p-13};
  const UOp low = number_like(given, -151.0), high = number_like(given, 129.0);
  const UOp above = where(given < low, low, given), x = where(high < above, high, above);
  const UOp magic = number_like(x, 0x1.8p23), shifted = x + magic;
  const UOp n = as_int32(shifted) - as_int32(magic), r = minus(x, minus(shifted, magic));
  UOp sum = number_like(x, q.back());
  for (size_t i = q.size() - 1; i-- > 0;) sum = UOp::alu(Op::MULACC, {sum, r, number_like(x, q[i])});
  const UOp half = n >> integer(n, 1);
  return sum * power_of_two(half) * power_of_two(n - half);
}

// ---- log2(x): x = 2^e * (1 + f), 1 + f between sqrt(1/2) and sqrt(2); log2(1 + f) = f * p(f), in float64,
// where what is rounded on the way does not matter

// Greater than this, as bits less those of the least normal number: not positive, not normal or no number.
constexpr int64_t kLeastNormal = 0x00800000, kMostNormal = 0x7effffff;
UOp is_special(const UOp& x) {
  const UOp bits = as_uint32(x);
  return integer(bits, kMostNormal) < minus(bits, integer(bits, kLeastNormal));
}

// Of a positive normal number.
template <size_t n>
UOp log2_in_float64(bool fused, const UOp& x, const std::array<double, n>& p) {
  const UOp bits = as_int32(x);
  const UOp e = (bits - integer(bits, 0x3f3504f3)) >> integer(bits, 23);  // of sqrt(1/2): 0x3f3504f3
  const UOp f = to_float64(minus(as_float32(bits - (e << integer(e, 23))), number_like(x, 1.0)));
  return multiply_add(fused, f, in_two_chains(fused, f, p), to_float64(e));
}

// Of any number that is not negative.
template <size_t n>
UOp log2_of_special(bool fused, const UOp& x, const std::array<double, n>& p) {
  const UOp small = x < number_like(x, 0x1p-126);
  const UOp finite = log2_in_float64(fused, where(small, x * number_like(x, 0x1p24), x), p);
  const UOp adjusted = finite + where(small, number_like(finite, -24.0), number_like(finite, 0.0));
  const UOp of_zero = where(eq(x, number_like(x, 0.0)), number_like(finite, -INFINITY), adjusted);
  return where(x < number_like(x, INFINITY), of_zero, to_float64(x));  // infinite or NaN as it is
}

template <bool fused>
UOp log2_float32(const UOp& u) {
  constexpr std::array p = {0x1.7154765277bf7p+0,  -0x1.715470a78407bp-1, 0x1.ec7096a8637aap-2,
                            -0x1.715a765c9b357p-2, 0x1.277e36bf3aecap-2,  -0x1.eabc885c4882ep-3,
                            0x1.a305adf651a80p-3,  -0x1.874be9d6435dep-3, 0x1.7d492b339d895p-3,
                            -0x1.c25a368c2db4cp-4};
  const UOp& x = u.src(0);
  const UOp negative = x < number_like(x, 0.0);
  const UOp special = log2_of_special(fused, x, p).cast(x.dtype());
  return rarely(is_special(x), where(negative, number_like(x, NAN), special),
                log2_in_float64(fused, x, p).cast(x.dtype()));
}

// ---- a^b = 2^(b * log2(a)), in float64

// 2^t for |t| <= 1000, or NaN: t = n + r with n whole and |r| <= 1/2; 2^r = 1 + r * p(r).
template <size_t n>
UOp exp2_in_float64(bool fused, const UOp& t, const std::array<double, n>& p) {
  // The last bits of what is shifted are n + 1023, an exponent with its bias.
  const UOp magic = number_like(t, 0x1.8p52 + 1023), shifted = t + magic, r = minus(t, minus(shifted, magic));
  const UOp bits = as_uint64(shifted), power = as_float64(bits << integer(bits, 52));
  return multiply_add(fused, r, in_two_chains(fused, r, p), number_like(r, 1.0)) * power;
}

template <bool fused>
UOp pow_float32(const UOp& u) {
  constexpr std::array log2 = {0x1.71547652b58f1p+0,  -0x1.71547651b70a4p-1, 0x1.ec709de33c707p-2,
                               -0x1.7154788835bdfp-2, 0x1.2776b6cd1f84ap-2,  -0x1.ec6f2e03888e8p-3,
                               0x1.a61b7dc5e7215p-3,  -0x1.7188d2f0d24ccp-3, 0x1.481fada17c6c9p-3,
                               -0x1.23d65098f4dd0p-3, 0x1.0acde5e53a6fep-3,  -0x1.13b88bbcea5f3p-3,
                               0x1.0f62ba9e41d5bp-3,  -0x1.1da760684d86ep-4};
  constexpr std::array exp2 = {0x1.62e42ff0e1ad3p-1, 0x1.ebfbe07788dcfp-3,  0x1.c6b08ac051bb5p-5,
                               0x1.3b29f39be16c3p-7, 0x1.5d8a860e363dcp-10, 0x1.445c850ccdeb4p-13,
                               0x1.fde5f2c7071ecp-17};
  const UOp &a = u.src(0), &b = u.src(1), bits = as_int32(a), one = number_like(a, 1.0);
  const UOp size = as_float32(bits & integer(bits, 0x7fffffff)), zero = number_like(b, 0.0);
  const UOp exponent = to_float64(b), t = exponent * log2_in_float64(fused, size, log2);
  // Zeros, infinities, NaN and what is not normal. Any power of 1 is 1, and so is the power 0 of anything.
  const UOp exponent_size = as_int32(b) & integer(bits, 0x7fffffff);
  const UOp special = is_special(size) | (integer(bits, 0x7f7fffff) < exponent_size);
  const UOp is_one =
      eq(b, zero) | eq(a, one) | (eq(size, one) & eq(exponent_size, integer(bits, 0x7f800000)));
  const UOp of_special = where(is_one, number_like(t, 0.0), exponent * log2_of_special(fused, size, log2));
  const UOp all = rarely(special, of_special, t);
  // Beyond these the result is 0 or infinite, whatever it is exactly.
  const UOp low = number_like(t, -200.0), high = number_like(t, 200.0);
  const UOp above = where(all < low, low, all), limited = where(high < above, high, above);
  const UOp power = exp2_in_float64(fused, limited, exp2).cast(a.dtype());
  // Of a negative number: with its sign if the exponent is odd, and only if that is whole.
  const auto is_whole = [](const UOp& x) { return eq(UOp::alu(Op::TRUNC, {x}), x); };
  const UOp whole = is_whole(b), odd = whole & ~is_whole(b * number_like(b, 0.5));
  const UOp sign = where(odd, bits & integer(bits, INT32_MIN), integer(bits, 0));
  const UOp undefined = (a < zero) & (number_like(a, -INFINITY) < a) & ~whole;
  return where(undefined, number_like(a, NAN), as_float32(as_int32(power) | sign));
}

// ---- sin(x) and cos(x): |x| = k * pi + r with |r| <= pi/2, in float64; k is whole, or for cos(x) a half
// more; sin(r) = r * (1 + r^2 * p(r^2)), and the last bit of k says the sign

// Words of 32 bits of 2 / pi, behind 32 zeros.
constexpr std::array<int64_t, 8> kTwoOverPi = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                               0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

// The word at `index` + `next`, 0 <= index <= 4, as a uint64.
UOp word(const UOp& index, size_t next) {
  const DType result = same_lanes(dtypes::uint64, index);
  UOp value = UOp::constant(result, static_cast<wide>(kTwoOverPi[next + 4 < 8 ? next + 4 : 7]));
  for (int64_t i = 3; i >= 0; i--)
    value = where(eq(index, integer(index, i)),
                  UOp::constant(result, static_cast<wide>(kTwoOverPi[static_cast<size_t>(i) + next])), value);
  return value;
}

enum class Wave { sine, cosine };

// `rest` with its sign changed where the last bit of `k` is set.
UOp with_sign_of(const UOp& rest, const UOp& k) {
  return as_float64(as_uint64(rest) ^ (k << integer(k, 63)));
}

// Below kLarge: k times the first part of pi is exact, or rounded together with the difference.
template <bool fused>
UOp reduce_small(const UOp& x, Wave wave) {
  constexpr double inverse = 0x1.45f306dc9c883p-2, half = 0.5;
  constexpr double high = fused ? 0x1.921fb54442d18p1 : 0x1.921fb54400000p1;
  constexpr double low = fused ? 0x1.1a62633145c07p-53 : 0x1.0b4611a626331p-33;
  const UOp magic = number_like(x, 0x1.8p52);
  const UOp turns = wave == Wave::sine
                        ? multiply_add(fused, x, number_like(x, inverse), magic)
                        : multiply_add(fused, x, number_like(x, inverse), number_like(x, -half)) + magic;
  const UOp whole = minus(turns, magic), k = wave == Wave::sine ? whole : whole + number_like(x, half);
  // x - k * pi, of cosines k * pi - x
  const double sign = wave == Wave::sine ? -1 : 1;
  const UOp from = wave == Wave::sine ? x : UOp::alu(Op::NEG, {x});
  const UOp rest = multiply_add(fused, k, number_like(x, sign * high), from);
  return with_sign_of(multiply_add(fused, k, number_like(x, sign * low), rest), as_uint64(turns));
}

// From kLarge on, after Payne and Hanek: x = m * 2^e; bits of 2 / pi that give multiples of 4 are left out,
// and of the next 96 the product with m is taken: one bit of k, and 63 of what is left that matter.
UOp reduce_large(const UOp& bits, Wave wave) {  // of a float32, without its sign
  const DType wide_integer = same_lanes(dtypes::uint64, bits);
  const UOp exponent = (bits >> integer(bits, 23)) - integer(bits, 150);
  const UOp m = ((bits & integer(bits, 0x7fffff)) | integer(bits, 0x800000)).cast(wide_integer);
  const UOp at = exponent + integer(bits, 30);
  const UOp index = at >> integer(at, 5), shift = (at & integer(at, 31)).cast(wide_integer);
  const UOp words[] = {word(index, 0), word(index, 1), word(index, 2), word(index, 3)};
  const UOp bits32 = integer(m, 32);
  auto shifted = [&](size_t i) { return (((words[i] << bits32) | words[i + 1]) << shift) >> bits32; };
  const UOp product = ((m * shifted(0)) << bits32) + m * shifted(1) + ((m * shifted(2)) >> bits32);
  const UOp half = integer(product, int64_t{1} << 62), last = integer(product, 63);
  const UOp k = (wave == Wave::sine ? product + half : product) >> last;
  const UOp part = minus(product, k << last), left = wave == Wave::sine ? part : minus(half, part);
  const UOp rest = to_float64(left.bitcast(same_lanes(dtypes::int64, bits)));
  return with_sign_of(rest * number_like(rest, 0x1.921fb54442d18p-62), k);
}

template <bool fused>
UOp wave_float32(const UOp& u) {
  constexpr std::array p = {-0x1.55555547696f5p-3, 0x1.11110c4a0470ep-7, -0x1.a017d9a135080p-13,
                            0x1.717080394d33cp-19, -0x1.9a6888ba9dafap-26};
  constexpr int64_t kLarge = fused ? 0x4f000000 : 0x49800000;  // 2^31, 2^20
  const UOp& x = u.src(0);
  const Wave wave = u.op() == Op::SIN ? Wave::sine : Wave::cosine;
  const UOp bits = as_int32(x), magnitude = bits & integer(bits, 0x7fffffff);
  const UOp large = magnitude < integer(bits, 0x7f800000), size = reduce_large(magnitude, wave);
  const UOp with_sign =
      wave == Wave::sine ? where(bits < integer(bits, 0), UOp::alu(Op::NEG, {size}), size) : size;
  const UOp r = rarely(integer(bits, kLarge) <= magnitude, where(large, with_sign, number_like(size, NAN)),
                       reduce_small<fused>(to_float64(x), wave));
  const UOp square = r * r;
  return (r * multiply_add(fused, square, polynomial(fused, square, p), number_like(r, 1.0))).cast(x.dtype());
}

// ---- powers with a constant exponent

UOp simple_power(const UOp& u) {
  const UOp& a = u.src(0);
  if (!u.src(1).is_const()) return {};
  const double exponent = u.src(1).value().as_float();
  if (exponent == 0) return number_like(a, 1.0);
  if (exponent == 1) return a;
  if (exponent == -1) return UOp::alu(Op::RECIP, {a});
  if (exponent == 2) return a * a;
  if (exponent == 3 && a.dtype().kind() == Scalar::Float64) return a * a * a;  // of float32: below
  if (exponent == 0.5)  // of -0 it is 0, and of minus infinity infinite
    return where(eq(a, number_like(a, -INFINITY)), number_like(a, INFINITY),
                 UOp::alu(Op::SQRT, {a}) + number_like(a, 0.0));
  return {};
}

// Of float32 as products in float64, where all is rounded once.
UOp whole_power(const UOp& u) {
  constexpr double most = 16;
  const UOp& a = u.src(0);
  if (!u.src(1).is_const()) return {};
  const double exponent = u.src(1).value().as_float();
  if (std::abs(exponent) > most || exponent != std::trunc(exponent)) return {};
  UOp square = to_float64(a), result;
  for (int left = static_cast<int>(std::abs(exponent)); left > 0; left >>= 1) {
    if ((left & 1) != 0) result = result ? result * square : square;
    if (left > 1) square = square * square;
  }
  return (exponent < 0 ? UOp::alu(Op::RECIP, {result}) : result).cast(a.dtype());
}

// ----

constexpr OpSet kFunctions = {Op::EXP2, Op::LOG2, Op::SIN, Op::COS};

UOp in_float64(const UOp& u) {
  switch (u.op()) {
    case Op::EXP2: return exp2_float64(u.src(0));
    case Op::LOG2: return log2_float64(u.src(0));
    default: return wave_float64(u);
  }
}

template <UOp (*exp2)(const UOp&), bool fused>
UOp in_arithmetic(const UOp& u) {
  const DType dtype = u.dtype();
  if (dtype.kind() == Scalar::Float64) return fused ? in_float64(u) : UOp();
  if (dtype.kind() != Scalar::Float32) {
    const UOp x = u.src(0).cast(dtypes::float32.vec(dtype.lanes()));
    return u.replace({.dtype = x.dtype(), .src = UOps{x}}).cast(dtype);
  }
  switch (u.op()) {
    case Op::EXP2: return exp2(u);
    case Op::LOG2: return log2_float32<fused>(u);
    default: return wave_float32<fused>(u);
  }
}

template <bool fused>
UOp power_in_arithmetic(const UOp& u) {
  const Scalar kind = u.dtype().kind();
  if (kind != Scalar::Float32 && kind != Scalar::Float64) return {};
  if (const UOp simple = simple_power(u)) return simple;
  if (kind == Scalar::Float64) return {};
  if (const UOp product = whole_power(u)) return product;
  return pow_float32<fused>(u);
}

}  // namespace
}  // namespace arithmetic

using namespace arithmetic;  // NOLINT(google-build-using-namespace): the file's own names

const Rules transcendental = [] {
  return RuleList{
      {op(kFunctions).as("x"), in_arithmetic<exp2_float32, false>, "a function -> arithmetic"},
      {op(Op::POW).as("x"), power_in_arithmetic<false>, "a power of float32 -> arithmetic in float64"}};
};

const Rules transcendental_but_exp2 = [] {
  return RuleList{
      {op(kFunctions).as("x"), in_arithmetic<exp2_of_hardware, true>,
       "a function -> fused arithmetic, but for vectors' EXP2"},
      {op(Op::POW).as("x"), power_in_arithmetic<true>, "a power of float32 -> fused arithmetic in float64"}};
};

const Rules transcendental_fused = [] {
  return RuleList{
      {op(kFunctions).as("x"), in_arithmetic<exp2_fused, true>, "a function -> fused arithmetic"},
      {op(Op::POW).as("x"), power_in_arithmetic<true>, "a power of float32 -> fused arithmetic in float64"}};
};

}  // namespace quern
