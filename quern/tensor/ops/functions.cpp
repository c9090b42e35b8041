// Exponentials, logarithms, trigonometry: from EXP2, LOG2, SIN, COS, SQRT and polynomials. docs/tensor.md has
// the errors.
//
// What only repairs rounding is detached: its derivative is 0, and its gradient would be noise. A branch that
// is not taken must not see arguments that overflow, because 0 * inf in its gradient would be NaN:
// `piecewise` replaces them.
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include "quern/tensor/core/support.h"

namespace quern {

using detail::apply, detail::in_wide_float, detail::is_double, detail::like, detail::multiply_add,
    detail::polynomial, detail::if_else;

namespace {

using Function = std::function<Tensor(const Tensor&)>;

// near(x) where the condition holds, else far(x). Both see `safe` where the other is taken.
Tensor piecewise(const Tensor& condition, const Tensor& x, double safe_near, const Function& near,
                 double safe_far, const Function& far) {
  return if_else(condition, near(if_else(condition, x, like(x, safe_near))),
                 far(if_else(condition, like(x, safe_far), x)));
}

// |x| with the gradient 1 at 0. (abs() has 0 there.)
Tensor size_of(const Tensor& x) { return if_else(x.lt(0), x.neg(), x); }
Tensor with_sign_of(const Tensor& x, const Tensor& value) { return if_else(x.lt(0), value.neg(), value); }

// Coefficients for float32 and float64: Chebyshev fits, computed with 50 digits.
struct Fit {
  std::vector<double> single, twice;
  Tensor operator()(const Tensor& x) const { return polynomial(x, is_double(x) ? twice : single); }
};

// x + x z P(z), z = x^2: odd functions near 0, where a zero keeps its sign.
Tensor odd(const Tensor& x, const Fit& fit) {
  const Tensor z = x * x;
  return if_else(x.eq(0), x, multiply_add(x * z, fit(z), x));
}

// Two parts of a constant: what the dtype holds, and the rest.
std::pair<double, double> split(const Tensor& x, long double c) {
  const double high = is_double(x) ? static_cast<double>(c) : static_cast<double>(static_cast<float>(c));
  return {high, static_cast<double>(c - static_cast<long double>(high))};
}

// exp(x), or half of it: 2^(x log2(e) - 1) is no larger than what it is half of. What the rounding of the
// exponent lost is added, times the result.
Tensor float_exp(const Tensor& x, bool is_half = false) {
  const auto [high, low] = split(x, std::numbers::log2e_v<long double>);
  const Tensor t = is_half ? x * high - 1 : x * high, product = (is_half ? t + 1 : t).detach();
  const Tensor fixed = x.detach(),
               error = multiply_add(fixed, like(x, low), multiply_add(fixed, like(x, high), product.neg()));
  const Tensor power = apply(Op::EXP2, t);
  // Beyond, the result is 0, infinite or NaN.
  const Tensor usable = t.lt(is_double(x) ? 1024 : 128) & t.gt(is_double(x) ? -1080 : -160);
  const Tensor repair = if_else(usable, error * std::numbers::ln2, like(x, 0)).detach();
  return if_else(usable, multiply_add(power, repair, power), power);
}

Tensor float_log(const Tensor& x) { return apply(Op::LOG2, x) * std::numbers::ln2; }

// log(1 + x): log(u) x / (u - 1), where u = 1 + x rounded; the factor repairs what was lost in u.
Tensor float_log1p(const Tensor& x) {
  const Tensor u = x + 1, difference = u - 1;
  const Tensor tiny = difference.eq(0);
  const Tensor infinite = x.eq(std::numeric_limits<double>::infinity());
  const Tensor repair =
      if_else(tiny | infinite, like(x, 1), x / if_else(tiny, like(x, 1), difference)).detach();
  return if_else(tiny, x, float_log(u) * repair);
}

// Between -0.4 and 0.72 without exp(x), of which more is lost there than the result may be off.
Tensor float_expm1(const Tensor& x) {
  static const Fit fit = {
      {0.4999999976, 0.1666666568, 0.04166676671, 0.00833348769, 0.001387789544, 0.0001982778352,
       2.852541319e-05},
      {0.5, 0.16666666666666667, 0.041666666666666681, 0.0083333333333333343, 0.0013888888888875595,
       0.0001984126984126098, 2.4801587345348912e-5, 2.7557319253155173e-6, 2.7557254112529572e-7,
       2.5052064984646848e-8, 2.0921400431402036e-9, 1.6088802586825862e-10}};
  return piecewise(
      is_double(x) ? x.abs().lt(0.35) : x.gt(-0.4) & x.lt(0.72), x, 0,
      [](const Tensor& v) { return multiply_add(v * v, fit(v), v); }, 1,
      [](const Tensor& v) { return float_exp(v) - 1; });
}

Tensor float_atan(const Tensor& x) {
  static const Fit fit = {
      {-0.3333333176, 0.1999953923, -0.1426391227, 0.1074326338, -0.06450377352},
      {-0.33333333333333333, 0.19999999999999803, -0.14285714285659457, 0.11111111105119365,
       -0.090909087517060758, 0.076922963231577845, -0.06666423954373412, 0.058789182929757259,
       -0.052303754575766601, 0.045512338448295308, -0.034561322968261451, 0.016275521683892552}};
  // |x| > tan(3 pi/8): pi/2 + atan(-1/|x|); |x| > tan(pi/8): pi/4 + atan((|x| - 1) / (|x| + 1)).
  const Tensor size = size_of(x), large = size.gt(2.414213562373095),
               medium = size.gt(0.4142135623730950) & large.logical_not();
  const Tensor one = like(x, 1);
  const Tensor top = if_else(large, one.neg(), if_else(medium, size - 1, size));
  const Tensor bottom = if_else(large, size, if_else(medium, size + 1, one));
  const Tensor angle = odd(top / bottom, fit);
  const auto [half, half_rest] = split(x, std::numbers::pi_v<long double> / 2);
  const auto [quarter, quarter_rest] = split(x, std::numbers::pi_v<long double> / 4);
  const Tensor base = if_else(large, like(x, half), if_else(medium, like(x, quarter), like(x, 0)));
  const Tensor rest = if_else(large, like(x, half_rest), if_else(medium, like(x, quarter_rest), like(x, 0)));
  return if_else(x.eq(0), x, with_sign_of(x, base + (angle + rest)));  // -0 keeps its sign
}

const Fit& asin_fit() {
  static const Fit fit = {
      {0.1666666634, 0.07500094761, 0.04459931916, 0.03110172783, 0.01714371682, 0.03370072632},
      {0.16666666666666667, 0.075000000000001185, 0.044642857142550185, 0.030381944475693705,
       0.022372157435623815, 0.017352816768546473, 0.013963775787848136, 0.011566511821890951,
       0.0096214027473447689, 0.009322101501083091, 0.0030350071727256479, 0.019579201619747228,
       -0.019277545928587954, 0.029635026263550566}};
  return fit;
}

// Of |x| > 0.5: pi/2 - 2 asin(sqrt((1 - |x|) / 2)).
Tensor asin_of_half_rest(const Tensor& size) { return odd(((1 - size) * 0.5).sqrt(), asin_fit()) * 2; }

Tensor float_asin(const Tensor& x) {
  const auto [half, rest] = split(x, std::numbers::pi_v<long double> / 2);
  return piecewise(
      x.abs().le(0.5), x, 0, [](const Tensor& v) { return odd(v, asin_fit()); }, 0.75,
      [h = half, r = rest](const Tensor& v) {
        return with_sign_of(v, h - (asin_of_half_rest(size_of(v)) - r));
      });
}

Tensor float_acos(const Tensor& x) {
  const auto [half, half_rest] = split(x, std::numbers::pi_v<long double> / 2);
  return piecewise(
      x.abs().le(0.5), x, 0,
      [h = half, r = half_rest](const Tensor& v) { return h - (odd(v, asin_fit()) - r); }, 0.75,
      [](const Tensor& v) {
        const Tensor angle = asin_of_half_rest(size_of(v));
        return if_else(v.lt(0), std::numbers::pi - angle, angle);
      });
}

Tensor float_tanh(const Tensor& x) {
  static const Fit fit = {
      {-0.3333333317, 0.1333330343, -0.05395922856, 0.02176866633, -0.008343119639, 0.002291809421},
      {-0.33333333333333333, 0.13333333333333321, -0.053968253968235726, 0.021869488535124273,
       -0.008863235499567354, 0.0035921275039821882, -0.0014558283645951344, 0.00058998159053386605,
       -0.0002388884877707698, 9.6038403942704612e-5, -3.7076300627988457e-5, 1.2205070696543846e-5,
       -2.4366763192579536e-6}};
  const Tensor near = x.abs().lt(0.625), t = x * (2 * std::numbers::log2e);
  const Tensor e = apply(Op::EXP2, if_else(t.lt(t.neg()), t, t.neg()));  // exp(-2 |x|)
  return if_else(near, odd(if_else(near, x, like(x, 0)), fit), with_sign_of(x, (1 - e) / (e + 1)));
}

// The Taylor series: the terms fall like factorials.
Tensor sinh_near_zero(const Tensor& x) {
  static const Fit series = {
      {1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800},
      {1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800, 1.0 / 6227020800.0,
       1.0 / 1307674368000.0, 1.0 / 355687428096000.0, 1.0 / 121645100408832000.0}};
  return odd(x, series);
}

// With h = exp(|x|) / 2: h - 1 / (4 h), and their sum.
Tensor float_sinh(const Tensor& x) {
  return piecewise(x.abs().lt(1), x, 0, sinh_near_zero, 1, [](const Tensor& v) {
    const Tensor half = float_exp(size_of(v), true);
    return with_sign_of(v, half - 0.25 / half);
  });
}
Tensor float_cosh(const Tensor& x) {
  const Tensor half = float_exp(x.abs(), true);
  return half + 0.25 / half;
}

double too_large_to_square(const Tensor& x) { return is_double(x) ? 1e150 : 1e18; }

Tensor float_asinh(const Tensor& x) {
  const Tensor size = size_of(x);
  return with_sign_of(x, piecewise(
                             size.lt(too_large_to_square(x)), size, 0,
                             [](const Tensor& v) {
                               const Tensor square = v * v;
                               return float_log1p(v + square / ((square + 1).sqrt() + 1));
                             },
                             1e19, [](const Tensor& v) { return float_log(v) + std::numbers::ln2; }));
}
Tensor float_acosh(const Tensor& given) {
  const Tensor x = if_else(given.lt(1), like(given, std::nan("")), given);
  return piecewise(
      x.lt(too_large_to_square(x)), x, 2,
      [](const Tensor& v) {
        const Tensor above = v - 1;
        return float_log1p(above + (above * (v + 1)).sqrt());
      },
      1e19, [](const Tensor& v) { return float_log(v) + std::numbers::ln2; });
}
Tensor float_atanh(const Tensor& x) {
  const Tensor size = size_of(x);
  return with_sign_of(x, float_log1p(size * 2 / (1 - size)) * 0.5);
}

// Of float64.
Tensor double_erf(const Tensor& x) {
  static const std::vector<double> near = {
      1.1283791670955126,     -0.37612638903183752,    0.11283791670955126,    -0.026866170645131219,
      0.005223977625441674,   -0.00085483270234030006, 0.00012055332978879484, -1.4925650236967502e-5,
      1.6462110782018636e-6,  -1.6365768648832072e-7,  1.4806027146128752e-8,  -1.2277734486795523e-9,
      9.3237235181530235e-11, -6.1967364287876903e-12, 2.806712819561113e-13};
  // erfc(x) exp(x^2) in t = 1 / (x + 1.5)
  static const std::vector<double> far = {1.3882342172648778e-8, 0.56418842998528685, 0.84632932791648067,
                                          0.986240739280505,     0.65318184538175897, -0.7602205668232428,
                                          0.1543927528823946,    -18.364459223846143, 101.41029620611886,
                                          -444.22285571930029,   1665.392005082202,   -4711.3198620386306,
                                          9652.2383387535547,    -14213.274669540126, 14801.707846068513,
                                          -10427.230259039018,   4484.0709615873591,  -892.81192937071468};
  return piecewise(
      x.abs().lt(1), x, 0, [](const Tensor& v) { return v * polynomial(v * v, near); }, 1,
      [](const Tensor& v) {  // beyond 6 it is 1
        const Tensor size = size_of(v).minimum(6);
        return with_sign_of(v, 1 - float_exp((size * size).neg()) * polynomial(1 / (size + 1.5), far));
      });
}

// Of float32: up to 1 a polynomial in x^2, beyond 1 - 2^p(x). From 4 on it is 1. Nothing overflows in the
// branch that is not taken.
Tensor float_erf(const Tensor& x) {
  if (is_double(x)) return double_erf(x);
  static const std::vector<double> near = {1.128379166,   -0.3761262582,    0.1128358515,  -0.02685381193,
                                           0.00518832768, -0.0008010193571, 7.85386117e-05};
  static const std::vector<double> far = {6.634797702e-05, -1.62871824,     -0.9152680744,
                                          -0.154660916,    0.03532581227,   -0.005704808769,
                                          0.0005692213359, -2.604405087e-05};
  const Tensor size = size_of(x), small = size.lt(1), inner = if_else(small, x, like(x, 0));
  const Tensor p = polynomial(if_else(size.gt(4), like(x, 4), size), far);
  return if_else(small, inner * polynomial(inner * inner, near),
                 with_sign_of(x, 1 - apply(Op::EXP2, if_else(p.gt(0), like(x, 0), p))));
}

// The angle of (x, y), from the quotient of the smaller by the larger size, which is at most 1.
Tensor float_atan2(const Tensor& y, const Tensor& x) {
  const auto [half, half_rest] = split(x, std::numbers::pi_v<long double> / 2);
  const auto [whole, whole_rest] = split(x, std::numbers::pi_v<long double>);
  const Tensor height = size_of(y), width = size_of(x), steep = height.gt(width);
  const Tensor top = if_else(steep, width, height), bottom = if_else(steep, height, width);
  const Tensor one = like(x, 1), both_infinite = top.eq(std::numeric_limits<double>::infinity());
  const Tensor divisor = if_else(bottom.eq(0) | both_infinite, one, bottom);
  const Tensor angle = float_atan(if_else(both_infinite, one, top) / divisor);
  const Tensor upright = if_else(steep, half - (angle - half_rest), angle);
  const Tensor up = if_else(x.signbit(), whole - (upright - whole_rest), upright);
  const Tensor turned = if_else(y.signbit(), up.neg(), up);
  return if_else(x.isnan() | y.isnan(), x + y, turned);
}

// The larger size times the square root of 1 + quotient^2, which overflows only where the result does.
Tensor float_hypot(const Tensor& x, const Tensor& y) {
  const Tensor a = size_of(x), b = size_of(y), less = a.lt(b);
  const Tensor large = if_else(less, b, a), small = if_else(less, a, b);
  const Tensor plain = large.eq(0) | large.eq(std::numeric_limits<double>::infinity());
  const Tensor ratio = if_else(plain, like(x, 0), small) / if_else(plain, like(x, 1), large);
  const Tensor infinite =
      a.eq(std::numeric_limits<double>::infinity()) | b.eq(std::numeric_limits<double>::infinity());
  return if_else(infinite, like(x, std::numeric_limits<double>::infinity()),
                 if_else(x.isnan() | y.isnan(), x + y, large * (ratio * ratio + 1).sqrt()));
}

// f of two operands as floats; types narrower than float32 are computed in float32.
Tensor of_two_floats(const char* who, const Tensor& a, const Operand& b,
                     Tensor (*f)(const Tensor&, const Tensor&)) {
  const auto [x, y] = detail::matched(who, a, b);
  const DType out = detail::to_float(x).dtype(), computed = detail::sum_dtype(out);
  return f(x.cast(computed), y.cast(computed)).cast(out);
}

}  // namespace

Tensor Tensor::atan2(const Operand& x) const { return of_two_floats("atan2", *this, x, float_atan2); }
Tensor Tensor::hypot(const Operand& other) const { return of_two_floats("hypot", *this, other, float_hypot); }
Tensor Tensor::exp() const {
  return in_wide_float(*this, [](const Tensor& x) { return float_exp(x); });
}
Tensor Tensor::exp2() const {
  return in_wide_float(*this, [](const Tensor& x) { return apply(Op::EXP2, x); });
}
Tensor Tensor::log() const { return in_wide_float(*this, float_log); }
Tensor Tensor::log2() const {
  return in_wide_float(*this, [](const Tensor& x) { return apply(Op::LOG2, x); });
}
Tensor Tensor::log10() const {
  return in_wide_float(*this, [](const Tensor& x) { return apply(Op::LOG2, x) * 0.30102999566398119521; });
}
Tensor Tensor::log1p() const { return in_wide_float(*this, float_log1p); }
Tensor Tensor::expm1() const { return in_wide_float(*this, float_expm1); }
Tensor Tensor::sin() const {
  return in_wide_float(*this, [](const Tensor& x) { return apply(Op::SIN, x); });
}
Tensor Tensor::cos() const {
  return in_wide_float(*this, [](const Tensor& x) { return apply(Op::COS, x); });
}
Tensor Tensor::tan() const {
  return in_wide_float(*this, [](const Tensor& x) { return apply(Op::SIN, x) / apply(Op::COS, x); });
}
Tensor Tensor::asin() const { return in_wide_float(*this, float_asin); }
Tensor Tensor::acos() const { return in_wide_float(*this, float_acos); }
Tensor Tensor::atan() const { return in_wide_float(*this, float_atan); }
Tensor Tensor::sinh() const { return in_wide_float(*this, float_sinh); }
Tensor Tensor::cosh() const { return in_wide_float(*this, float_cosh); }
Tensor Tensor::tanh() const { return in_wide_float(*this, float_tanh); }
Tensor Tensor::asinh() const { return in_wide_float(*this, float_asinh); }
Tensor Tensor::acosh() const { return in_wide_float(*this, float_acosh); }
Tensor Tensor::atanh() const { return in_wide_float(*this, float_atanh); }
Tensor Tensor::erf() const { return in_wide_float(*this, float_erf); }

Tensor Tensor::logaddexp(const Operand& other) const {
  const auto [a, b] = detail::matched("logaddexp", *this, other);
  const DType out = detail::to_float(a).dtype(), computed = detail::sum_dtype(out);
  const Tensor x = a.cast(computed), y = b.cast(computed), greatest = x.maximum(y);
  const Tensor base = if_else(greatest.isfinite(), greatest, like(x, 0)).detach();
  const Tensor sum = float_exp(x - base) + float_exp(y - base);
  // Of finite numbers: the greater one, and log(1 + exp(-distance)). Equal ones share the gradient.
  const Tensor distance = if_else(greatest.isfinite(), greatest - x.minimum(y), like(x, 0));
  return detail::rarely(greatest.isfinite().logical_not(), float_log(sum),
                        greatest + float_log1p(float_exp(distance.neg())))
      .cast(out);
}

}  // namespace quern
