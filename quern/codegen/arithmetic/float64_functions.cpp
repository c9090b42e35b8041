#include "quern/codegen/arithmetic/float64_functions.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "quern/codegen/arithmetic/write.h"

namespace quern::arithmetic {
namespace {

// From coefficients.py, kLn2 is the first of those of 2^r.
// clang-format off
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr std::array kExp2 = {
    0x1.ebfbdff82c58fp-3, 0x1.c6b08d704a0cfp-5, 0x1.3b2ab6fba4e22p-7, 0x1.5d87fe78a26c7p-10, 0x1.430912f883d0bp-13,
    0x1.ffcbfc74d6826p-17, 0x1.62c021e2682a5p-20, 0x1.b524dd5479307p-24, 0x1.e4d06c8e5133bp-28, 0x1.ea015000498d2p-32,
    0x1.c2ce73550b5f5p-36};
constexpr std::array kLogarithm = {
    0x1.5555555555592p-1, 0x1.999999997fdb9p-2, 0x1.24924941f11abp-2, 0x1.c71c52096331ep-3, 0x1.74663ee7463dbp-3,
    0x1.39a1bad4eb554p-3, 0x1.2f05625e5af83p-3};
constexpr std::array kSine = {
    -0x1.5555555555548p-3, 0x1.111111110f7d0p-7, -0x1.a01a019bfdf2bp-13, 0x1.71de3567d66b7p-19, -0x1.ae5e5a93d175fp-26,
    0x1.5d8fd24a546bdp-33};
constexpr std::array kCosine = {
    0x1.555555555554bp-5, -0x1.6c16c16c14f92p-10, 0x1.a01a019c8454ap-16, -0x1.27e4f7eac7b0fp-22, 0x1.1ee9d7b66707cp-29,
    -0x1.8fa49a9a4f245p-37};
// clang-format on

UOp number(const UOp& like, double value) { return number_like(like, value); }
UOp fused(const UOp& a, const UOp& b, const UOp& c) { return multiply_add(true, a, b, c); }
UOp negated(const UOp& x) { return UOp::alu(Op::NEG, {x}); }

// Of a positive normal number x = 2^e * (1 + f), 1 + f between sqrt(1/2) and sqrt(2). With s = f / (2 + f)
// the natural logarithm of 1 + f is f - f^2 / 2 + s * (f^2 / 2 + s^2 * p(s^2)).
UOp log2_of_normal(const UOp& x) {
  constexpr int64_t root = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000;  // of 1/2; 1
  // NOLINTNEXTLINE(modernize-use-std-numbers): in two parts
  constexpr double log2e = 0x1.71547652b82fep0, log2e_rest = 0x1.777d0ffda0d24p-56;
  const UOp bits = as_uint64(x), shifted = bits + integer(bits, one - root);
  const UOp fraction = (shifted & integer(bits, 0x000fffffffffffff)) + integer(bits, root);
  // The exponent with its bias, below the bits of 2^52.
  const UOp biased = (shifted >> integer(bits, 52)) | integer(bits, 0x4330000000000000);
  const UOp e = minus(as_float64(biased), number(x, 0x1p52 + 1023));
  const UOp f = minus(as_float64(fraction), number(x, 1.0)), s = UOp::alu(Op::FDIV, {f, f + number(x, 2.0)}),
            z = s * s;
  const UOp half = number(x, -0.5) * f;  // the square's half is half * f, with the other sign
  const UOp high = fused(half, f, f), lost = fused(half, f, minus(f, high));
  const UOp rest = minus(z * in_two_chains(true, z, kLogarithm), half * f), low = fused(s, rest, lost);
  // log2(e) times the sum, to more than 53 bits
  const UOp product = high * number(x, log2e);
  const UOp error = fused(high, number(x, log2e), negated(product));
  const UOp small = fused(low, number(x, log2e), fused(high, number(x, log2e_rest), error));
  const UOp sum = e + product;  // e is 0, or the greater
  return sum + (minus(product, minus(sum, e)) + small);
}

// x = k * pi/2 + rest + low, |x| < 2^20: the first parts of pi/2 are of 33 bits, so that k times one is
// exact.
struct Angle {
  UOp k, rest, low;
};
Angle angle_of(const UOp& x) {
  constexpr double parts[] = {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69,
                              0x1.129024e088a68p-123};
  const UOp magic = number(x, 0x1.8p52), shifted = fused(x, number(x, 0x1.45f306dc9c883p-1), magic);
  const UOp k = minus(shifted, magic), from = fused(k, number(x, -parts[0]), x);
  const UOp part = k * number(x, parts[1]), next = minus(from, part), lost = minus(minus(from, next), part);
  const UOp third = number(x, parts[2]), last = fused(k, third, negated(lost)), rest = minus(next, last);
  const UOp more = fused(k, number(x, parts[3]), minus(fused(k, third, negated(last)), lost));
  return {as_uint64(shifted), rest, minus(minus(minus(next, rest), last), more)};
}

}  // namespace

// x = n + r with n whole and |r| <= 1/2; 2^r = 1 + r * (ln2 + r * p(r))
UOp exp2_float64(const UOp& given) {
  // Beyond these the result is 0 or infinite, whatever it is exactly.
  const UOp low = number(given, -1076.0), high = number(given, 1025.0);
  const UOp above = where(given < low, low, given), x = where(high < above, high, above);
  // The last bits of what is shifted are n with the bias of two exponents: 2^n is scaled by in two steps,
  // since it may be no normal number; only the second may round.
  const UOp magic = number(x, 0x1.8p52 + 2 * 1023), shifted = x + magic, bits = as_uint64(shifted);
  const UOp r = minus(x, minus(shifted, magic));
  const UOp all = bits << integer(bits, 52);
  const UOp half = (bits << integer(bits, 51)) & integer(bits, 0x7ff0000000000000);
  // The last two steps are rounded once each.
  const UOp slope = fused(r, in_two_chains(true, r, kExp2), number(r, kLn2));
  const UOp sum = fused(r, slope, number(r, 1.0));
  return sum * as_float64(half) * as_float64(minus(all, half));
}

UOp log2_float64(const UOp& x) {
  constexpr int64_t least = 0x0010000000000000, most = 0x7fdfffffffffffff;
  const UOp bits = as_uint64(x), zero = number(x, 0.0);
  const UOp small = x < number(x, 0x1p-1022);
  const UOp finite =
      log2_of_normal(where(small, x * number(x, 0x1p54), x)) + where(small, number(x, -54.0), zero);
  const UOp positive = where(x < number(x, INFINITY), finite, x);  // infinite or NaN as it is
  const UOp special = where(eq(x, zero), number(x, -INFINITY), where(x < zero, number(x, NAN), positive));
  return rarely(integer(bits, most) < minus(bits, integer(bits, least)), special, log2_of_normal(x));
}

UOp wave_float64(const UOp& u) {
  if (u.hints().by_library) return {};
  const UOp size = as_uint64(u.src(0)) & UOp::constant(as_uint64(u.src(0)).dtype(), wide{INT64_MAX});
  const UOp x = as_float64(size);
  const auto [k, rest, low] = angle_of(x);
  const UOp z = rest * rest, half = z * number(x, 0.5), one = number(x, 1.0);
  // rest + low + rest * z * p(z), and 1 - z / 2 + z^2 * q(z) - rest * low, with what 1 - z / 2 loses
  const UOp cube = rest * z;
  const UOp sine = rest + fused(cube, in_two_chains(true, z, kSine), minus(low, half * low));
  const UOp start = minus(one, half), lost = minus(minus(one, start), half);
  const UOp cosine = start + fused(z * z, in_two_chains(true, z, kCosine), minus(lost, rest * low));
  const UOp turns = u.op() == Op::SIN ? k : k + integer(k, 1);
  const UOp value = where(ne(turns & integer(k, 1), integer(k, 0)), cosine, sine);
  const UOp turned = (turns & integer(k, 2)) << integer(k, 62);
  const UOp sign = u.op() == Op::SIN ? turned ^ (as_uint64(u.src(0)) ^ size) : turned;
  const UOp result = as_float64(as_uint64(value) ^ sign);
  const UOp is_large = integer(k, 0x4130000000000000) <= size;  // from 2^20 on
  return rarely(is_large, u.with_hint(&Hints::by_library, true), result);
}

}  // namespace quern::arithmetic
