// Functions of one number, on every dtype: integers become floats.
#include <gtest/gtest.h>

#include <cmath>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

// The ulps are those of docs/tensor.md.
std::vector<Row> functions() {
  std::vector<Row> rows = {
      unary("exp", &Tensor::exp, std::exp, -5, 5, 2),
      unary("exp2", &Tensor::exp2, std::exp2, -5, 5, 1),
      unary("log", &Tensor::log, std::log, 0.1, 5, 2),
      unary("log2", &Tensor::log2, std::log2, 0.1, 5, 1),
      unary("log10", &Tensor::log10, std::log10, 0.1, 5, 3),
      unary("log1p", &Tensor::log1p, std::log1p, -0.8, 5, 3),
      unary("expm1", &Tensor::expm1, std::expm1, -3, 3, 3),
      unary("sin", &Tensor::sin, std::sin, -4, 4, 1),
      unary("cos", &Tensor::cos, std::cos, -4, 4, 2),
      unary("tan", &Tensor::tan, std::tan, -1.4, 1.4, 4),
      unary("asin", &Tensor::asin, std::asin, -0.9, 0.9, 3),
      unary("acos", &Tensor::acos, std::acos, -0.9, 0.9, 3),
      unary("atan", &Tensor::atan, std::atan, -4, 4, 3),
      unary("sinh", &Tensor::sinh, std::sinh, -3, 3, 4),
      unary("cosh", &Tensor::cosh, std::cosh, -3, 3, 4),
      unary("tanh", &Tensor::tanh, std::tanh, -3, 3, 3),
      unary("asinh", &Tensor::asinh, std::asinh, -4, 4, 4),
      unary("acosh", &Tensor::acosh, std::acosh, 1.2, 5, 4),
      unary("atanh", &Tensor::atanh, std::atanh, -0.9, 0.9, 4),
      unary("erf", &Tensor::erf, std::erf, -3, 3, 3),
      unary("sqrt", &Tensor::sqrt, std::sqrt, 0.1, 5, 0),
      unary(
          "rsqrt", &Tensor::rsqrt, [](Number x) { return 1 / std::sqrt(x); }, 0.1, 5, 1),
      unary(
          "reciprocal", &Tensor::reciprocal, [](Number x) { return 1 / x; }, 0.3, 5, 0),
  };
  for (Row& row : rows) row.specials = true;
  return rows;
}

TEST(Functions, Values) { expect_all(functions()); }
TEST(Functions, Gradients) { expect_all_gradients(functions()); }

// Far away, at 0 and next to it a branch that is not taken must not spoil the gradient.
TEST(Functions, GradientsFarAway) {
  for (const Row& row : functions()) {
    if (row.name == "sqrt" || row.name == "rsqrt" || row.name == "reciprocal")
      continue;  // they have none at 0
    expect_gradients_at(row, {0, 1e-30L, -1e-30L, 0.35L, 0.5L, 0.625L, 20, -20});
    if (row.name != "sin" && row.name != "cos" && row.name != "tan")
      expect_gradients_at(row, {90, -90, 300, -300, 1e5L, -1e5L, 1e200L});
  }
}

// ---- What rounds, and what asks.

Number sign_of(Number x) { return std::isnan(x) ? x : static_cast<Number>((x > 0) - (x < 0)); }

Row same_type(const std::string& name, Tensor (Tensor::*method)() const, Number (*f)(Number),
              OfWholes integers) {
  Row row = unary(name, method, f, -3, 3, 0);
  row.reference = pointwise(as_is, [=](const Numbers& n) { return f(n[0]); }, integers);
  row.narrow = 0, row.specials = row.wrapping = true;
  row.close.signed_zeros = true;
  return row;
}
Row question(const std::string& name, Tensor (Tensor::*method)() const, bool (*f)(Number)) {
  Row row = unary(name, method, std::abs, -3, 3, 0);
  row.reference = pointwise(as_bool, [=](const Numbers& n) { return Number{f(n[0]) ? 1.0L : 0.0L}; });
  row.specials = row.wrapping = true;
  row.by = {};
  return row;
}

std::vector<Row> exact() {
  const OfWholes same = [](const std::vector<Whole>& n, DType) { return n[0]; };
  return {
      same_type(
          "neg", &Tensor::neg, [](Number x) { return -x; },
          [](const std::vector<Whole>& n, DType d) { return d.is_bool() ? !n[0] : -n[0]; }),
      same_type("abs", &Tensor::abs, std::abs,
                [](const std::vector<Whole>& n, DType) { return n[0] < 0 ? -n[0] : n[0]; }),
      same_type("sign", &Tensor::sign, sign_of,
                [](const std::vector<Whole>& n, DType) { return Whole{(n[0] > 0) - (n[0] < 0)}; }),
      same_type(
          "square", &Tensor::square, [](Number x) { return x * x; },
          [](const std::vector<Whole>& n, DType) { return wrapped_product(n[0], n[0]); }),
      same_type("trunc", &Tensor::trunc, std::trunc, same),
      same_type("floor", &Tensor::floor, std::floor, same),
      same_type("ceil", &Tensor::ceil, std::ceil, same),
      same_type("round", &Tensor::round, std::nearbyint, same),
      question("isnan", &Tensor::isnan, [](Number x) { return std::isnan(x); }),
      question("isinf", &Tensor::isinf, [](Number x) { return std::isinf(x); }),
      question("isfinite", &Tensor::isfinite, [](Number x) { return std::isfinite(x); }),
      question("logical_not", &Tensor::logical_not, [](Number x) { return x == 0; }),
  };
}

TEST(ExactFunctions, Values) { expect_all(exact()); }
TEST(ExactFunctions, Gradients) { expect_all_gradients(exact()); }

}  // namespace
}  // namespace quern::optest
