// The tables of docs/tensor.md: errors in units in the last place, over random bit patterns; and narrow
// floats as the rounding of what float32 gives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "test/ir/rounds.h"
#include "test/ops/row.h"

namespace quern::optest {
namespace {

using Method = Tensor (Tensor::*)() const;

struct Limit {
  const char* name;
  Method ours;
  Number (*reference)(Number);
  double ulps;
};

const Limit kLimits[] = {
    {"exp", &Tensor::exp, std::exp, 2},       {"log", &Tensor::log, std::log, 2},
    {"cos", &Tensor::cos, std::cos, 1},       {"log10", &Tensor::log10, std::log10, 3},
    {"expm1", &Tensor::expm1, std::expm1, 3}, {"log1p", &Tensor::log1p, std::log1p, 3},
    {"asin", &Tensor::asin, std::asin, 3},    {"acos", &Tensor::acos, std::acos, 3},
    {"atan", &Tensor::atan, std::atan, 3},    {"tanh", &Tensor::tanh, std::tanh, 3},
    {"erf", &Tensor::erf, std::erf, 3},       {"tan", &Tensor::tan, std::tan, 4},
    {"sinh", &Tensor::sinh, std::sinh, 4},    {"cosh", &Tensor::cosh, std::cosh, 4},
    {"asinh", &Tensor::asinh, std::asinh, 4}, {"acosh", &Tensor::acosh, std::acosh, 4},
    {"atanh", &Tensor::atanh, std::atanh, 4}, {"sqrt", &Tensor::sqrt, std::sqrt, 0},
    {"floor", &Tensor::floor, std::floor, 0}, {"ceil", &Tensor::ceil, std::ceil, 0},
    {"trunc", &Tensor::trunc, std::trunc, 0}, {"round", &Tensor::round, std::nearbyint, 0},
    {"exp2", &Tensor::exp2, std::exp2, 1},    {"log2", &Tensor::log2, std::log2, 1},
    {"sin", &Tensor::sin, std::sin, 1},
};

Number smallest_normal(DType dtype) { return std::ldexp(Number{1}, dtype == dtypes::float64 ? -1022 : -126); }

// Any bits in a third of the cases; exponents near 0, and numbers near 1, in the others.
Array random_bits(std::mt19937_64& random, DType dtype, int64_t n) {
  Array a(dtype, {n});
  for (Number& x : a.at) {
    do {
      const uint64_t bits =
          random() & (dtype.bits() == 64 ? ~uint64_t{0} : (uint64_t{1} << dtype.bits()) - 1);
      x = decoded(dtype, bits);
      int exponent = 0;
      const Number fraction = std::frexp(x, &exponent);
      if (random() % 3 != 0) x = std::ldexp(fraction, static_cast<int>(random() % 16) - 8);
      if (random() % 8 == 0) x = rounded(dtype, 1 + std::ldexp(fraction, -static_cast<int>(random() % 24)));
    } while (std::isnan(x) ||
             (x != 0 && std::abs(x) < smallest_normal(dtype)));  // some devices have no others
  }
  return a;
}

// In ulps. Where the result is smaller than every normal number, 0 will do.
double error(DType dtype, Number got, Number exact) {
  const Number want = rounded(dtype, exact);
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  if (std::isnan(got) || std::isnan(want)) return 1e9;
  if (got == 0 && std::abs(exact) < smallest_normal(dtype)) return 0;
  if (std::isinf(want) || std::isinf(got))  // at the end of the range
    return std::isfinite(exact) &&
                   std::abs(std::isinf(got) ? exact : got) > std::ldexp(rounded(dtype, 1), 127)
               ? 1
               : 1e9;
  return static_cast<double>(std::abs(got - exact) / spacing(dtype, exact));
}

TEST(Precision, FunctionsOverBitPatterns) {
  for (const DType dtype : {dtypes::float32, dtypes::float64}) {
    const int64_t n = rounds(dtype == dtypes::float32 ? 6000 : 2000);
    for (const Limit& f : kLimits) {
      std::mt19937_64 random = generator(f.name);
      const Array x = random_bits(random, dtype, n), y = array_of((tensor_of(x).*f.ours)());
      double most = 0;
      size_t at = 0;
      for (size_t i = 0; i < x.at.size(); i++)
        if (const double e = error(dtype, y.at[i], f.reference(x.at[i])); e > most) most = e, at = i;
      EXPECT_LE(most, f.ulps) << f.name << " of " << dtype.name()
                              << fmt::format(" {:.17g}: {:.17g}, exactly {:.21g}",
                                             static_cast<double>(x.at[at]), static_cast<double>(y.at[at]),
                                             f.reference(x.at[at]));
    }
  }
}

TEST(Precision, RemaindersAreExact) {
  for (const DType dtype : {dtypes::float32, dtypes::float64}) {
    std::mt19937_64 random = generator("remainders");
    Array x = random_bits(random, dtype, rounds(6000)), y = x;
    for (size_t i = 0; i < x.at.size(); i++) {  // quotients below 2^24, or 2^53
      const Number quotient = std::ldexp(Number{static_cast<double>(random() % 1000) + 1} / 1001,
                                         static_cast<int>(random() % (dtype == dtypes::float32 ? 24 : 53)));
      y.at[i] = rounded(dtype, x.at[i] / quotient * (random() % 2 == 0 ? 1 : -1));
      if (std::abs(y.at[i]) < smallest_normal(dtype) * 4096) y.at[i] = x.at[i] = 1;
    }
    const Tensor a = tensor_of(x), b = tensor_of(y);
    const Array fmod = array_of(a.fmod(b)), mod = array_of(a.mod(b)), div = array_of(a.floordiv(b));
    for (size_t i = 0; i < x.at.size(); i++) {
      const Number r = std::fmod(x.at[i], y.at[i]),
                   m = rounded(dtype, r != 0 && (r < 0) != (y.at[i] < 0) ? r + y.at[i] : r);
      ASSERT_EQ(fmod.at[i], r) << dtype.name() << ": " << x.at[i] << " by " << y.at[i];
      ASSERT_EQ(mod.at[i], m) << dtype.name() << ": " << x.at[i] << " by " << y.at[i];
      ASSERT_EQ(div.at[i], rounded(dtype, std::floor(x.at[i] / y.at[i])))
          << dtype.name() << ": " << x.at[i] << " by " << y.at[i];
    }
  }
}

using Any = std::function<Tensor(const Tensor&)>;

TEST(Precision, NarrowFloatsAreRoundedOnce) {
  std::vector<std::pair<std::string, Any>> functions;
  for (const Limit& f : kLimits) functions.emplace_back(f.name, f.ours);
  const std::pair<const char*, Any> others[] = {
      {"reciprocal", &Tensor::reciprocal},
      {"rsqrt", &Tensor::rsqrt},
      {"square", &Tensor::square},
      {"sigmoid", &Tensor::sigmoid},
      {"logsigmoid", &Tensor::logsigmoid},
      {"silu", &Tensor::silu},
      {"mish", &Tensor::mish},
      {"quick_gelu", &Tensor::quick_gelu},
      {"softsign", &Tensor::softsign},
      {"hardsigmoid", &Tensor::hardsigmoid},
      {"hardswish", &Tensor::hardswish},
      {"gelu", [](const Tensor& x) { return x.gelu(); }},
      {"gelu none", [](const Tensor& x) { return x.gelu("none"); }},
      {"elu", [](const Tensor& x) { return x.elu(); }},
      {"celu", [](const Tensor& x) { return x.celu(0.7); }},
      {"selu", [](const Tensor& x) { return x.selu(); }},
      {"softplus", [](const Tensor& x) { return x.softplus(); }},
      {"leaky_relu", [](const Tensor& x) { return x.leaky_relu(0.3); }},
      {"pow", [](const Tensor& x) { return x.pow(1.75); }},
      {"lerp", [](const Tensor& x) { return x.lerp(x.flip(0), 0.3); }},
      {"softmax", [](const Tensor& x) { return x.hardtanh().softmax(); }},
      {"var", [](const Tensor& x) { return x.hardtanh().reshape({-1, 8}).var(1); }},
      {"layernorm", [](const Tensor& x) { return x.hardtanh().reshape({-1, 8}).layernorm(); }},
      {"normalize", [](const Tensor& x) { return x.hardtanh().reshape({-1, 8}).normalize(); }},
      {"mod", [](const Tensor& x) { return x.mod(x.flip(0)); }},
      {"floordiv", [](const Tensor& x) { return x.floordiv(x.flip(0)); }},
      {"logaddexp", [](const Tensor& x) { return x.logaddexp(x.flip(0)); }},
  };
  functions.insert(functions.end(), std::begin(others), std::end(others));
  for (const DType dtype : {dtypes::float16, dtypes::bfloat16, dtypes::fp8e4m3, dtypes::fp8e5m2}) {
    std::mt19937_64 random = generator("narrow");
    Array bits(dtype, {2048});
    for (Number& x : bits.at) x = decoded(dtype, random() & ((uint64_t{1} << dtype.bits()) - 1));
    const Tensor x = tensor_of(bits);
    for (const auto& [name, f] : functions)
      EXPECT_EQ(difference(array_of(f(x)), array_of(f(x.f32()).cast(dtype)), {}), "")
          << name << " of " << dtype.name();
  }
}

}  // namespace
}  // namespace quern::optest
