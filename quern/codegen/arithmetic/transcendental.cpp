#include "quern/codegen/arithmetic/transcendental.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "quern/codegen/analysis/not_positive.h"

namespace quern {
namespace {

UOp integer(const UOp& like, int64_t value) { return UOp::constant(like.dtype(), static_cast<wide>(value)); }
UOp minus(const UOp& a, const UOp& b) { return UOp::alu(Op::SUB, {a, b}); }
DType same_lanes(DType scalar, const UOp& x) { return scalar.vec(x.dtype().lanes()); }
UOp as_int32(const UOp& x) { return x.bitcast(same_lanes(dtypes::int32, x)); }
UOp as_float32(const UOp& bits) { return bits.bitcast(same_lanes(dtypes::float32, bits)); }

// c[0] + x * (c[1] + x * (...))
template <size_t n>
UOp polynomial(const UOp& x, const std::array<double, n>& c) {
  UOp sum = number_like(x, c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) sum = sum * x + number_like(x, c[i]);
  return sum;
}

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
  const UOp fraction = large + (minus(linear, minus(large, one)) + (r * r) * polynomial(r, p));
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
  const auto multiply_add = [](const UOp& a, const UOp& b, const UOp& c) {
    return UOp::alu(Op::MULACC, {a, b, c});
  };
  const bool below_one = is_of_not_positive(exp2);
  const UOp low = number_like(given, -151.0), high = number_like(given, 129.0);
  UOp x = where(given < low, low, given);  // one instruction each, that leaves NaN as it is
  if (!below_one) x = where(high < x, high, x);
  // The last bits of what is shifted are n + bias, which is an exponent with its own bias already.
  // Both are even, so that halves are rounded to the same n: marked or not, the result is the same.
  const int bias = below_one ? 127 + 65 : 2 * 127;
  const UOp magic = number_like(x, 0x1.8p23 + bias), shifted = x + magic, bits = as_int32(shifted);
  const UOp r = minus(x, minus(shifted, magic)), square = r * r;
  const auto pair = [&](size_t i) { return multiply_add(number_like(x, q[i + 1]), r, number_like(x, q[i])); };
  UOp sum = multiply_add(pair(4), square, pair(2));
  for (const size_t i : {1, 0}) sum = multiply_add(sum, r, number_like(x, q[i]));  // rounded once for each
  // 2^n in two steps, since it may be no normal number; only the second may round.
  const UOp all = bits << integer(bits, 23);
  const UOp half = below_one ? all : (bits << integer(bits, 22)) & integer(bits, 0x7f800000);
  const UOp first = as_float32(half), second = below_one ? number_like(x, 0x1p-65) : as_float32(all - half);
  return multiply_add(sum, r * first, first) * second;  // NaN, if that is given
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

// ---- log2(x): x = 2^e * (1 + f), 1 + f between sqrt(1/2) and sqrt(2); log2(1 + f) = f * L + f^2 * p(f)

UOp log2_float32(const UOp& x) {
  constexpr std::array p = {-0x1.715476p-1, 0x1.ec7088p-2,  -0x1.7154c6p-2, 0x1.277f2ep-2,  -0x1.ec68b2p-3,
                            0x1.a40a2cp-3,  -0x1.6f71a2p-3, 0x1.60ab4ep-3,  -0x1.54e962p-3, 0x1.7fdeaep-4};
  // NOLINTNEXTLINE(modernize-use-std-numbers): its upper half
  constexpr double log2e_high = 0x1.714p0, log2e_low = 0x1.47652cp-12;
  const UOp small = x < number_like(x, 0x1p-126);
  const UOp bits = as_int32(where(small, x * number_like(x, 0x1p24), x));
  const UOp e = (bits - integer(bits, 0x3f3504f3)) >> integer(bits, 23);  // of sqrt(1/2): 0x3f3504f3
  const UOp f = minus(as_float32(bits - (e << integer(e, 23))), number_like(x, 1.0));
  const UOp exponent = (e + where(small, integer(e, -24), integer(e, 0))).cast(x.dtype());
  // f * L to more than 24 bits, and f^2: the products of the upper halves are exact.
  const UOp upper = as_float32(as_int32(f) & integer(bits, -4096)), lower = minus(f, upper);
  const UOp high = upper * number_like(x, log2e_high), rest = polynomial(f, p);
  const UOp low = (upper * upper) * rest +
                  (lower * ((f + upper) * rest + number_like(x, log2e_high)) + f * number_like(x, log2e_low));
  const UOp sum = exponent + high, lost = where(eq(exponent, number_like(x, 0.0)), number_like(x, 0.0),
                                                minus(high, minus(sum, exponent)));
  const UOp result = sum + (lost + low);
  const UOp positive = where(eq(x, number_like(x, INFINITY)), x, result);
  return where(number_like(x, 0.0) < x, positive,
               where(eq(x, number_like(x, 0.0)), number_like(x, -INFINITY), number_like(x, NAN)));
}

// ---- sin(x): |x| = k * pi/2 + r with |r| <= pi/4, in float64

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

struct Reduced {
  UOp quadrant;  // k modulo 4 in its last bits, uint64
  UOp rest;      // float64
};

// Below 2^20: k * (the first 33 bits of pi/2) is exact.
Reduced reduce_small(const UOp& x) {
  const UOp magic = number_like(x, 0x1.8p52), shifted = x * number_like(x, 0x1.45f306dc9c883p-1) + magic;
  const UOp k = minus(shifted, magic);
  const UOp rest =
      minus(minus(x, k * number_like(x, 0x1.921fb544p0)), k * number_like(x, 0x1.0b4611a626331p-34));
  return {shifted.bitcast(same_lanes(dtypes::uint64, x)), rest};
}

// From 2^20 on, after Payne and Hanek: x = m * 2^e; bits of 2 / pi that give multiples of 4 are left out, and
// of the next 96 the product with m is taken: two bits of k, and 62 of what is left that matter.
Reduced reduce_large(const UOp& bits) {  // of a float32, without its sign
  const DType wide_integer = same_lanes(dtypes::uint64, bits);
  const UOp exponent = (bits >> integer(bits, 23)) - integer(bits, 150);
  const UOp m = ((bits & integer(bits, 0x7fffff)) | integer(bits, 0x800000)).cast(wide_integer);
  const UOp at = exponent + integer(bits, 30);
  const UOp index = at >> integer(at, 5), shift = (at & integer(at, 31)).cast(wide_integer);
  const UOp words[] = {word(index, 0), word(index, 1), word(index, 2), word(index, 3)};
  const UOp bits32 = integer(m, 32);
  auto shifted = [&](size_t i) { return (((words[i] << bits32) | words[i + 1]) << shift) >> bits32; };
  const UOp product = ((m * shifted(0)) << bits32) + m * shifted(1) + ((m * shifted(2)) >> bits32);
  const UOp k = (product + integer(product, int64_t{1} << 61)) >> integer(product, 62);
  const UOp left = minus(product, k << integer(product, 62)).bitcast(same_lanes(dtypes::int64, bits));
  const UOp rest = left.cast(same_lanes(dtypes::float64, bits));
  return {k, rest * number_like(rest, 0x1.921fb54442d18p-62)};
}

UOp sin_float32(const UOp& x) {
  constexpr std::array s = {-0x1.555555555516bp-3, 0x1.1111110fd3b3cp-7, -0x1.a019fd9ae7168p-13,
                            0x1.71d9a9b87993fp-19, -0x1.aa283bea75579p-26};
  constexpr std::array c = {-0x1.fffffffffe694p-2, 0x1.555555514f0e0p-5, -0x1.6c16bae56f7d8p-10,
                            0x1.a0129877a1cfcp-16, -0x1.2474cb416294ep-22};
  const UOp bits = as_int32(x), magnitude = bits & integer(bits, 0x7fffffff);
  const UOp is_small = magnitude < integer(bits, 0x49800000);  // 2^20
  const UOp size =
      as_float32(where(is_small, magnitude, integer(bits, 0))).cast(same_lanes(dtypes::float64, x));
  const Reduced small = reduce_small(size);
  const Reduced large = reduce_large(where(is_small, integer(bits, 0x49800000), magnitude));
  const UOp k = where(is_small, small.quadrant, large.quadrant), r = where(is_small, small.rest, large.rest);
  const UOp square = r * r;
  const UOp sine = r + r * square * polynomial(square, s);
  const UOp cosine = square * polynomial(square, c) + number_like(r, 1.0);
  const UOp zero = integer(k, 0);
  const UOp value = where(ne(k & integer(k, 1), zero), cosine, sine);
  const UOp negative = ne(ne(k & integer(k, 2), zero), bits < integer(bits, 0));
  const UOp result = where(negative, value * number_like(value, -1.0), value).cast(x.dtype());
  return where(magnitude < integer(bits, 0x7f800000), result, number_like(x, NAN));
}

// ----

template <UOp (*exp2)(const UOp&)>
UOp in_arithmetic(const UOp& u) {
  const DType dtype = u.dtype();
  if (dtype.kind() == Scalar::Float64) return {};
  if (dtype.kind() != Scalar::Float32) {
    const UOp x = u.src(0).cast(dtypes::float32.vec(dtype.lanes()));
    return u.replace({.dtype = x.dtype(), .src = UOps{x}}).cast(dtype);
  }
  switch (u.op()) {
    case Op::EXP2: return exp2(u);
    case Op::LOG2: return log2_float32(u.src(0));
    default: return sin_float32(u.src(0));
  }
}

}  // namespace

const Rules transcendental = [] {
  return RuleList{
      {op({Op::EXP2, Op::LOG2, Op::SIN}).as("x"), in_arithmetic<exp2_float32>, "a function -> arithmetic"}};
};

const Rules transcendental_but_exp2 = [] {
  return RuleList{{op({Op::EXP2, Op::LOG2, Op::SIN}).as("x"), in_arithmetic<exp2_of_hardware>,
                   "a function -> fused arithmetic, but for vectors' EXP2"}};
};

const Rules transcendental_fused = [] {
  return RuleList{{op({Op::EXP2, Op::LOG2, Op::SIN}).as("x"), in_arithmetic<exp2_fused>,
                   "a function -> fused arithmetic"}};
};

}  // namespace quern
