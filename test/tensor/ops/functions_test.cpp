// Functions against the C library, in units in the last place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "test/tensor/values.h"

namespace quern {
namespace {

std::vector<double> grid(double low, double high, int n, DType dtype) {
  std::vector<double> points;
  for (int i = 0; i < n; i++) points.push_back(round_float(dtype, low + (high - low) * (i + 0.37) / n));
  return points;
}

struct Approximated {
  const char* name;
  Tensor (Tensor::*ours)() const;
  long double (*reference)(long double);
  double low, high;
  double most;  // ulps
};

const Approximated kFunctions[] = {
    {"exp", &Tensor::exp, std::exp, -80, 80, 2},
    {"exp", &Tensor::exp, std::exp, -1, 1, 2},
    {"log", &Tensor::log, std::log, 1e-6, 30, 2},
    {"log", &Tensor::log, std::log, 0.9, 1.1, 2},
    {"log10", &Tensor::log10, std::log10, 1e-6, 30, 3},
    {"log1p", &Tensor::log1p, std::log1p, -0.9, 2, 3},
    {"log1p", &Tensor::log1p, std::log1p, -1e-6, 1e-6, 3},
    {"expm1", &Tensor::expm1, std::expm1, -5, 5, 3},
    {"expm1", &Tensor::expm1, std::expm1, -1e-5, 1e-5, 2},
    {"cos", &Tensor::cos, std::cos, -10, 10, 2},
    {"cos", &Tensor::cos, std::cos, 1.5, 1.65, 2},
    {"tan", &Tensor::tan, std::tan, -5, 5, 4},
    {"asin", &Tensor::asin, std::asin, -1, 1, 3},
    {"acos", &Tensor::acos, std::acos, -1, 1, 3},
    {"atan", &Tensor::atan, std::atan, -10, 10, 3},
    {"atan", &Tensor::atan, std::atan, -0.5, 0.5, 3},
    {"sinh", &Tensor::sinh, std::sinh, -3, 3, 4},
    {"sinh", &Tensor::sinh, std::sinh, -85, 85, 4},
    {"cosh", &Tensor::cosh, std::cosh, -85, 85, 4},
    {"tanh", &Tensor::tanh, std::tanh, -12, 12, 3},
    {"tanh", &Tensor::tanh, std::tanh, -1, 1, 3},
    {"asinh", &Tensor::asinh, std::asinh, -20, 20, 4},
    {"acosh", &Tensor::acosh, std::acosh, 1, 20, 4},
    {"atanh", &Tensor::atanh, std::atanh, -0.99, 0.99, 4},
    {"erf", &Tensor::erf, std::erf, -5, 5, 3},
    {"erf", &Tensor::erf, std::erf, -0.5, 0.5, 3},
};

TEST(Functions, AreCloseToTheLibrary) {
  for (const DType dtype : {dtypes::float32, dtypes::float64})
    for (const Approximated& f : kFunctions) {
      const std::vector<double> points = grid(f.low, f.high, 400, dtype);
      const Tensor y = (input({400}, points, dtype).*f.ours)();
      EXPECT_EQ(y.dtype(), dtype);
      const std::vector<double> got = values(y);
      double most = 0, at = 0;
      for (size_t i = 0; i < points.size(); i++) {
        const long double want = f.reference(points[i]);
        int exponent = 0;
        std::frexp(static_cast<double>(want), &exponent);
        const long double unit = std::ldexp(static_cast<long double>(epsilon(dtype)), exponent - 1);
        const auto error = static_cast<double>(std::abs(got[i] - want) / unit);
        if (!(error <= most)) most = error, at = points[i];
      }
      EXPECT_LE(most, f.most) << f.name << " of " << dtype.name() << " at " << at;
    }
}

void expect_values(const Tensor& x, const std::vector<double>& expected) {
  const std::vector<double> got = values(x);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); i++) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i << " is " << got[i];
    else
      EXPECT_TRUE(got[i] == expected[i] && std::signbit(got[i]) == std::signbit(expected[i]))
          << "element " << i << " is " << got[i] << ", expected " << expected[i];
  }
}

TEST(Functions, SpecialValues) {
  constexpr double inf = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = input({5}, {inf, -inf, nan, 0.0, -0.0});
  expect_values(x.exp(), {inf, 0, nan, 1, 1});
  expect_values(x.log(), {inf, nan, nan, -inf, -inf});
  expect_values(x.tanh(), {1, -1, nan, 0, -0.0});
  expect_values(x.sigmoid(), {1, 0, nan, 0.5, 0.5});
  expect_values(x.erf(), {1, -1, nan, 0, -0.0});
  expect_values(x.relu(), {inf, 0, nan, 0, 0});
  expect_values(x.abs(), {inf, inf, nan, 0, 0});
  expect_values(x.sign(), {1, -1, nan, 0, 0});
  expect_values(x.isnan(), {0, 0, 1, 0, 0});
  expect_values(x.isinf(), {1, 1, 0, 0, 0});
  expect_values(x.isfinite(), {0, 0, 0, 1, 1});
  expect_values(x.floor(), {inf, -inf, nan, 0, -0.0});
  expect_values(x.round(), {inf, -inf, nan, 0, -0.0});
  expect_values(x.softplus(),
                {inf, 0, nan, static_cast<float>(std::log(2.0)), static_cast<float>(std::log(2.0))});
  expect_values(x.log1p(), {inf, nan, nan, 0, -0.0});
  expect_values(x.copysign(-1), {-inf, -inf, nan, -0.0, -0.0});
  expect_values(x.atan(), {static_cast<float>(std::numbers::pi / 2),
                           -static_cast<float>(std::numbers::pi / 2), nan, 0, -0.0});
  expect_values(x.exp2(), {inf, 0, nan, 1, 1});
}

TEST(Functions, Rounding) {
  const Tensor x = input({9}, {-2.5, -1.5, -0.5, -0.2, 0.5, 1.5, 2.5, 2.7, 8388609.0});
  expect_values(x.round(), {-2, -2, -0.0, -0.0, 0, 2, 2, 3, 8388609});
  expect_values(x.floor(), {-3, -2, -1, -1, 0, 1, 2, 2, 8388609});
  expect_values(x.ceil(), {-2, -1, -0.0, -0.0, 1, 2, 3, 3, 8388609});
  expect_values(x.trunc(), {-2, -1, -0.0, -0.0, 0, 1, 2, 2, 8388609});
}

TEST(Functions, DivisionAndRemainders) {
  const Tensor a = input({6}, {7, -7, 7, -7, 5, 1}), b = input({6}, {3, 3, -3, -3, INFINITY, 0.1});
  expect_values(a.mod(b), {1, 2, -2, -1, 5, std::fmod(1.0f, 0.1f)});
  expect_values(a.fmod(b), {1, -1, 1, -1, 5, std::fmod(1.0f, 0.1f)});
  expect_values(a.floordiv(b), {2, -3, -3, 2, 0, 9});
  const Tensor i = input({4}, {7, -7, 7, -7}, dtypes::int32), j = input({4}, {3, 3, -3, -3}, dtypes::int32);
  expect_values(i.mod(j), {1, 2, -2, -1});
  expect_values(i.fmod(j), {1, -1, 1, -1});
  expect_values(i.floordiv(j), {2, -3, -3, 2});
  expect_values(i.div(j, "trunc"), {2, -2, -2, 2});
  EXPECT_EQ((i / j).dtype(), dtypes::float32);
  expect_values(i.div(2), {3.5, -3.5, 3.5, -3.5});
}

TEST(Functions, FmodIsExact) {
  std::vector<double> a, b;
  for (int n = 0; n < 500; n++) {
    a.push_back(static_cast<float>(std::sin(n * 1.7) * std::pow(10.0, n % 7)));
    b.push_back(static_cast<float>(std::cos(n * 0.9) + 1.3));
  }
  const std::vector<double> got = values(input({500}, a).fmod(input({500}, b)));
  for (size_t n = 0; n < a.size(); n++)
    if (std::abs(a[n] / b[n]) < (1 << 22)) EXPECT_EQ(got[n], std::fmod(a[n], b[n])) << a[n] << " by " << b[n];
}

TEST(Functions, RemaindersOfLargeQuotients) {
  std::vector<double> a{1e10f, 1e20f, 0x1p24, 3.4e38f, 3.4e38f, -1e30f, 1e30f},
      b{7, 3, 0.1f, 1e-37f, 0.1f, 0.3f, -0.3f};
  for (int n = 0; n < 200; n++) {
    a.push_back(static_cast<float>(std::sin(n * 1.7) * std::pow(10.0, n % 38)));
    b.push_back(static_cast<float>((std::cos(n * 0.9) + 1.3) * std::pow(10.0, -(n % 37))));
  }
  const auto size = static_cast<int64_t>(a.size());
  const Tensor x = input({size}, a), y = input({size}, b);
  const std::vector<double> fmod = values(x.fmod(y)), mod = values(x.mod(y)), by_third = values(x.fmod(0.3));
  for (size_t n = 0; n < a.size(); n++) {
    const double rest = std::fmod(a[n], b[n]), up = static_cast<float>(rest + b[n]);
    EXPECT_EQ(fmod[n], rest) << a[n] << " by " << b[n];
    EXPECT_EQ(mod[n], rest != 0 && (rest < 0) != (b[n] < 0) ? up : rest) << a[n] << " by " << b[n];
    EXPECT_EQ(by_third[n], std::fmod(a[n], static_cast<double>(0.3f))) << a[n] << " by 0.3";
  }
  expect_values(input({3}, {1e60, 1e200, -1e300}, dtypes::float64).fmod(3.0), {std::fmod(1e60, 3), 0, -0.0});
}

TEST(Functions, LargeQuotientsAreRoundedOnce) {
  const Tensor x = input({3}, {1e10, 1e20, -1e10});
  expect_values(x.floordiv(7), {static_cast<float>(1e10f / 7.0), static_cast<float>(1e20f / 7.0),
                                static_cast<float>(-1e10f / 7.0)});
}

TEST(Functions, VarianceOfLargeValues) {
  std::vector<double> x;
  double sum = 0, squares = 0;
  for (int n = 0; n < 4000; n++) x.push_back(static_cast<float>(1e6 + std::abs(std::sin(n * 1.3))));
  for (const double v : x) sum += v;
  const double mean = sum / 4000;
  for (const double v : x) squares += (v - mean) * (v - mean);
  const Tensor t = input({4000}, x);
  EXPECT_NEAR(values(t.var())[0], squares / 3999, 1e-6);
  EXPECT_NEAR(values(t.std())[0], std::sqrt(squares / 3999), 1e-6);
  const auto [var, shown] = t.var_mean();
  EXPECT_NEAR(values(shown)[0], mean, 0.04);                 // a float32 beside 1e6
  EXPECT_NEAR(values(var)[0], squares / 3999, 0.04 * 0.04);  // about that float32
  EXPECT_EQ(values(input({300}, std::vector<double>(300, 0.1f)).var())[0], 0);
}

TEST(Functions, Activations) {
  const std::vector<double> points = grid(-6, 6, 100, dtypes::float64);
  const Tensor x = input({100}, points, dtypes::float64);
  auto near = [&](const Tensor& y, const std::function<double(double)>& f, const char* name) {
    const std::vector<double> got = values(y);
    for (size_t i = 0; i < points.size(); i++)
      EXPECT_NEAR(got[i], f(points[i]), 1e-14 * (1 + std::abs(points[i]))) << name << " at " << points[i];
  };
  auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  auto softplus = [](double v) { return std::log1p(std::exp(v)); };
  near(x.sigmoid(), sigmoid, "sigmoid");
  near(x.logsigmoid(), [&](double v) { return std::log(sigmoid(v)); }, "logsigmoid");
  near(x.silu(), [&](double v) { return v * sigmoid(v); }, "silu");
  near(x.softplus(2), [&](double v) { return softplus(2 * v) / 2; }, "softplus");
  near(x.mish(), [&](double v) { return v * std::tanh(softplus(v)); }, "mish");
  near(x.elu(0.7), [](double v) { return v > 0 ? v : 0.7 * std::expm1(v); }, "elu");
  near(x.celu(0.7), [](double v) { return v > 0 ? v : 0.7 * std::expm1(v / 0.7); }, "celu");
  near(x.gelu("none"), [](double v) { return v * 0.5 * (1 + std::erf(v / std::sqrt(2.0))); }, "gelu");
  near(
      x.gelu(),
      [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); },
      "gelu tanh");
  near(x.quick_gelu(), [&](double v) { return v * sigmoid(1.702 * v); }, "quick_gelu");
  near(x.softsign(), [](double v) { return v / (1 + std::abs(v)); }, "softsign");
  near(x.hardsigmoid(), [](double v) { return std::clamp(v / 6 + 0.5, 0.0, 1.0); }, "hardsigmoid");
  near(x.hardswish(), [](double v) { return v * std::clamp(v + 3, 0.0, 6.0) / 6; }, "hardswish");
  near(x.leaky_relu(), [](double v) { return v < 0 ? 0.01 * v : v; }, "leaky_relu");
  near(x.logaddexp(1), [](double v) { return std::log(std::exp(v) + std::exp(1)); }, "logaddexp");
}

TEST(Functions, DtypesOfResults) {
  const Tensor i8 = Tensor::ones({2}, {.dtype = dtypes::int8}),
               f16 = Tensor::ones({2}, {.dtype = dtypes::float16});
  const Tensor b = Tensor::full({2}, true), i64 = Tensor::ones({2}, {.dtype = dtypes::int64});
  EXPECT_EQ((i8 + 1).dtype(), dtypes::int8);
  EXPECT_EQ((i8 + 1.5).dtype(), dtypes::float32);
  EXPECT_EQ((1.5 + i64).dtype(), dtypes::float32);
  EXPECT_EQ((f16 + 1.5).dtype(), dtypes::float16);
  EXPECT_EQ((b + 1).dtype(), dtypes::int32);
  EXPECT_EQ((b + true).dtype(), dtypes::bool_);
  EXPECT_EQ((i8 + i64).dtype(), dtypes::int64);
  EXPECT_EQ((i8 / i8).dtype(), dtypes::float32);
  EXPECT_EQ((f16 < 2).dtype(), dtypes::bool_);
  EXPECT_EQ(i8.exp().dtype(), dtypes::float32);
  EXPECT_EQ(f16.exp().dtype(), dtypes::float16);
  EXPECT_EQ(b.sum().dtype(), dtypes::int32);
  EXPECT_EQ(i8.sum().dtype(), dtypes::int32);
  EXPECT_EQ(f16.sum().dtype(), dtypes::float16);
  EXPECT_EQ(i8.mean().dtype(), dtypes::float32);
  EXPECT_EQ(i8.matmul(i8).dtype(), dtypes::int8);
  expect_values(2 - i8, {1, 1});
  expect_values(~input({3}, {0, 5, -1}, dtypes::int32), {-1, -6, 0});
  expect_values(~input({2}, {0, 5}, dtypes::uint8), {255, 250});
  expect_values(input({1}, {1.5}).bitcast(dtypes::uint8), {0, 0, 0xc0, 0x3f});
  expect_values(input({4}, {0, 0, 0xc0, 0x3f}, dtypes::uint8).bitcast(dtypes::float32), {1.5});
}

}  // namespace
}  // namespace quern
