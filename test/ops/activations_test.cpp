// Activations: functions of one number that networks use.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

Number sigmoid(Number x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Number softplus(Number x) {
  return std::isnan(x) ? x : std::max(x, Number{0}) + std::log1p(std::exp(-std::abs(x)));
}
Number between(Number x, Number low, Number high) { return std::isnan(x) ? x : std::clamp(x, low, high); }

Row activation(const std::string& name, const std::function<Tensor(const Tensor&)>& ours,
               Number (*f)(Number)) {
  Row row = unary(name, &Tensor::exp, f, -4, 4, 0);
  row.ours = [=](const Tensors& x) { return ours(x[0]); };
  row.close = {.ulps = 6, .least = 1};
  return row;
}
Row integers_stay(Row row) {
  const auto f = row.reference;
  row.reference = [f](const Arrays& a) { return with_dtype(f(a)[0], a[0].dtype); };
  return row;
}
Row numbers(Row row) {  // of bools the limits make integers
  row.types = kNumbers;
  return row;
}
std::vector<Row> activations() {
  return {
      activation("sigmoid", &Tensor::sigmoid, sigmoid),
      activation("logsigmoid", &Tensor::logsigmoid, [](Number x) { return -softplus(-x); }),
      integers_stay(
          activation("relu", &Tensor::relu,
                     [](Number x) { return between(x, 0, std::numeric_limits<Number>::infinity()); })),
      integers_stay(numbers(activation("relu6", &Tensor::relu6, [](Number x) { return between(x, 0, 6); }))),
      activation(
          "leaky_relu", [](const Tensor& x) { return x.leaky_relu(); },
          [](Number x) { return x < 0 ? 0.01L * x : x; }),
      activation(
          "leaky_relu 0.3", [](const Tensor& x) { return x.leaky_relu(0.3); },
          [](Number x) { return x < 0 ? 0.3L * x : x; }),
      activation(
          "elu", [](const Tensor& x) { return x.elu(); }, [](Number x) { return x > 0 ? x : std::expm1(x); }),
      activation(
          "elu 0.7", [](const Tensor& x) { return x.elu(0.7); },
          [](Number x) { return x > 0 ? x : 0.7L * std::expm1(x); }),
      activation(
          "celu 0.7", [](const Tensor& x) { return x.celu(0.7); },
          [](Number x) { return x > 0 ? x : 0.7L * std::expm1(x / 0.7L); }),
      activation(
          "selu", [](const Tensor& x) { return x.selu(); },
          [](Number x) {
            return 1.05070098735548049342L * (x > 0 ? x : 1.67326324235437728481L * std::expm1(x));
          }),
      activation(
          "gelu", [](const Tensor& x) { return x.gelu(); },
          [](Number x) {
            return 0.5L * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x)));
          }),
      activation(
          "gelu none", [](const Tensor& x) { return x.gelu("none"); },
          [](Number x) { return 0.5L * x * (1 + std::erf(x / std::sqrt(2.0L))); }),
      activation("quick_gelu", &Tensor::quick_gelu, [](Number x) { return x * sigmoid(1.702L * x); }),
      activation("silu", &Tensor::silu, [](Number x) { return x * sigmoid(x); }),
      activation("swish", &Tensor::swish, [](Number x) { return x * sigmoid(x); }),
      activation("mish", &Tensor::mish, [](Number x) { return x * std::tanh(softplus(x)); }),
      activation(
          "softplus", [](const Tensor& x) { return x.softplus(); }, softplus),
      activation(
          "softplus 2.5", [](const Tensor& x) { return x.softplus(2.5); },
          [](Number x) { return softplus(2.5L * x) / 2.5L; }),

      activation("softsign", &Tensor::softsign, [](Number x) { return x / (1 + std::abs(x)); }),
      activation("hardsigmoid", &Tensor::hardsigmoid, [](Number x) { return between(x / 6 + 0.5L, 0, 1); }),

      activation("hardswish", &Tensor::hardswish, [](Number x) { return x * between(x + 3, 0, 6) / 6; }),
      activation(
          "hardtanh", [](const Tensor& x) { return x.hardtanh(); },
          [](Number x) { return between(x, -1, 1); }),
      activation(
          "hardtanh of its own limits", [](const Tensor& x) { return x.hardtanh(-0.5, 2); },
          [](Number x) { return between(x, -0.5L, 2); }),
  };
}

TEST(Activations, Values) { expect_all(activations()); }
TEST(Activations, Gradients) { expect_all_gradients(activations()); }

TEST(Activations, GradientsFarAway) {
  for (const Row& row : activations()) {
    expect_gradients_at(row, {1e-3L, -1e-3L, 20, -20, 90, -90, 800, -800, 1e5L, -1e5L});
    const bool smooth = !row.name.starts_with("relu") && !row.name.starts_with("leaky") &&
                        row.name != "elu 0.7" && row.name != "selu";
    if (smooth) expect_gradients_at(row, {0});
  }
}

// Infinities and NaN: limits where there are some.
TEST(Activations, SpecialValues) {
  for (Row row : activations())
    for (const char* name : {"sigmoid", "logsigmoid", "relu6", "elu", "selu", "softplus", "leaky_relu",
                             "hardtanh", "hardsigmoid", "celu 0.7"})
      if (row.name == name) {
        row.specials = true;
        row.shapes = {{{1}}};
        expect_values(row);
      }
}

}  // namespace
}  // namespace quern::optest
