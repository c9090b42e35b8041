// backward() and gradient() of tensors: which tensors get a gradient, and what wrong use is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <unordered_map>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/tensor.h"
#include "test/error_of.h"
#include "test/tensor/reference.h"

namespace quern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor grad_of(const Tensor& x) {
  const std::optional<Tensor> grad = x.grad();
  if (!grad) throw Error("no gradient");
  return *grad;
}

class Backward : public ::testing::Test {
 protected:
  Tensor made(const Ints& sizes, const std::vector<double>& numbers, DType dtype = dtypes::float32) {
    const UOp buffer = new_buffer(dtype, std::ssize(numbers), device_node(default_device()));
    for (const double n : numbers) memory_[buffer].push_back(make_const(dtype, n));
    return Tensor(quern::reshape(buffer, quern::sizes_of(sizes)));
  }
  std::vector<double> numbers(const Tensor& x) {
    std::vector<double> result;
    for (const Const& c : reference::evaluate(x.uop(), [&](const UOp& b) { return contents(b); }))
      result.push_back(c.as_float());
    return result;
  }

 private:
  std::vector<Const> contents(const UOp& buffer) {
    const auto found = memory_.find(buffer);
    if (found != memory_.end()) return found->second;
    return std::vector<Const>(static_cast<size_t>(buffer.arg().integer()),
                              Const::of_float(NAN));  // not written yet
  }
  std::unordered_map<UOp, std::vector<Const>> memory_;
};

TEST_F(Backward, FillsTheGradientsOfWhatRequiresThem) {
  const Tensor x = made({3}, {1, 2, 3}), w = made({3}, {4, 5, 6}), other = made({3}, {7, 8, 9});
  w.set_requires_grad();
  other.set_requires_grad();
  (x * w).sum().backward();
  EXPECT_FALSE(x.grad()) << "it does not require one";
  EXPECT_FALSE(other.grad()) << "the loss does not depend on it";
  EXPECT_THAT(numbers(grad_of(w)), ElementsAre(1, 2, 3));
}

TEST_F(Backward, Accumulates) {
  const Tensor w = made({2}, {4, 5});
  w.set_requires_grad();
  (w * w).sum().backward();
  const Tensor first = grad_of(w);
  (w * 3).sum().backward();
  EXPECT_THAT(numbers(grad_of(w)), ElementsAre(11, 13));
  EXPECT_THAT(numbers(first), ElementsAre(11, 13)) << "the tensor that is the gradient stays the same one";
  w.set_grad({});
  (w * 3).sum().backward();
  EXPECT_THAT(numbers(grad_of(w)), ElementsAre(3, 3));
}

TEST_F(Backward, ATensorOfOneElementNeedsNoSeed) {
  const Tensor w = made({1, 1}, {4});
  w.set_requires_grad();
  (w * w).backward();
  EXPECT_THAT(numbers(grad_of(w)), ElementsAre(8));
}

TEST_F(Backward, Seed) {
  const Tensor w = made({2}, {4, 5});
  w.set_requires_grad();
  (w * w).backward(made({2}, {1, 10}));
  EXPECT_THAT(numbers(grad_of(w)), ElementsAre(8, 100));
}

TEST_F(Backward, EqualConstantsAreDifferentTensors) {
  const Tensor a = Tensor::zeros({2}), b = Tensor::zeros({2}), state = Tensor::zeros({2});
  a.set_requires_grad();
  b.set_requires_grad();
  (a * 2 + b * 3 + state * 5).sum().backward();
  EXPECT_THAT(numbers(grad_of(a)), ElementsAre(2, 2));
  EXPECT_THAT(numbers(grad_of(b)), ElementsAre(3, 3));
}

TEST_F(Backward, BroadcastBias) {
  const Tensor x = made({2, 3}, {1, 2, 3, 4, 5, 6}), bias = Tensor::zeros({1, 3});
  bias.set_requires_grad();
  (x * (x + bias)).sum().backward();
  EXPECT_THAT(numbers(grad_of(bias)), ElementsAre(5, 7, 9));
}

TEST_F(Backward, ViewsOfAParameter) {
  const Tensor w = made({2, 3}, {1, 2, 3, 4, 5, 6});
  w.set_requires_grad();
  (w.reshape({3, 2}).permute({1, 0}) * w.reshape({2, 3})).sum().backward();
  EXPECT_EQ(grad_of(w).shape(), (Shape{2, 3}));
  EXPECT_THAT(numbers(grad_of(w)), ElementsAre(2, 7, 7, 7, 7, 12))
      << "w = (a b c; d e f) times (a c e; b d f): aa + bc + ce + db + ed + ff";
}

TEST_F(Backward, AStepOfGradientDescent) {
  const Tensor w = made({2}, {4, 5});
  w.set_requires_grad();
  for (int i = 0; i < 2; i++) {  // w^2 / 2, rate 1/2: every step takes half of it
    w.set_grad({});
    (w * w * 0.5).sum().backward();
    w.assign(w.detach() - grad_of(w) * 0.5);
  }
  EXPECT_THAT(numbers(w), ElementsAre(1, 1.25));
}

TEST_F(Backward, MatrixProduct) {
  const Tensor a = made({2, 2}, {1, 2, 3, 4}), b = made({2, 2}, {5, 6, 7, 8});
  const std::vector<Tensor> found = a.dot(b).sum().gradient({a, b});
  EXPECT_THAT(numbers(found[0]), ElementsAre(11, 15, 11, 15));
  EXPECT_THAT(numbers(found[1]), ElementsAre(4, 4, 6, 6));
}

// Against central differences, in float64.
void expect_slope(const Tensor& x, const std::vector<double>& at,
                  const std::function<Tensor(const Tensor&)>& f) {
  const UOp buffer = base_of(x.uop());
  auto value = [&](const Tensor& y, const std::vector<double>& held) {
    std::vector<Const> contents, result = {};
    contents.reserve(held.size());
    for (const double n : held) contents.push_back(Const::of_float(n));
    return reference::evaluate(y.uop(), [&](const UOp& b) {
      return same(b, buffer) ? contents : std::vector<Const>(static_cast<size_t>(b.arg().integer()));
    });
  };
  const Tensor y = f(x).sum(), slope = y.gradient({x})[0];
  const std::vector<Const> got = value(slope, at);
  for (size_t i = 0; i < at.size(); i++) {
    std::vector<double> left = at, right = at;
    left[i] -= 1e-5, right[i] += 1e-5;
    const double wanted = (value(y, right)[0].as_float() - value(y, left)[0].as_float()) / 2e-5;
    EXPECT_NEAR(got[i].as_float(), wanted, 1e-6 * std::max(1.0, std::abs(wanted))) << "element " << i;
  }
}

TEST_F(Backward, FunctionsOfTensors) {
  const std::vector<double> at{0.3, -0.7, 0.9, 0.2, -0.4, 0.6};
  const Tensor x = made({2, 3}, at, dtypes::float64);
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> functions[] = {
      {"exp", [](const Tensor& t) { return t.exp(); }},
      {"log", [](const Tensor& t) { return (t + 2).log(); }},
      {"log1p", [](const Tensor& t) { return t.log1p(); }},
      {"sin", [](const Tensor& t) { return t.sin(); }},
      {"cos", [](const Tensor& t) { return t.cos(); }},
      {"tan", [](const Tensor& t) { return t.tan(); }},
      {"asin", [](const Tensor& t) { return t.asin(); }},
      {"acos", [](const Tensor& t) { return t.acos(); }},
      {"atan", [](const Tensor& t) { return t.atan(); }},
      {"sinh", [](const Tensor& t) { return t.sinh(); }},
      {"cosh", [](const Tensor& t) { return t.cosh(); }},
      {"tanh", [](const Tensor& t) { return t.tanh(); }},
      {"asinh", [](const Tensor& t) { return t.asinh(); }},
      {"acosh", [](const Tensor& t) { return (t + 2).acosh(); }},
      {"atanh", [](const Tensor& t) { return t.atanh(); }},
      {"erf", [](const Tensor& t) { return t.erf(); }},
      {"abs", [](const Tensor& t) { return t.abs(); }},
      {"pow", [](const Tensor& t) { return (t + 2).pow(t); }},
      {"cube", [](const Tensor& t) { return t.pow(3); }},
      {"sqrt", [](const Tensor& t) { return (t + 2).sqrt(); }},
      {"rsqrt", [](const Tensor& t) { return (t + 2).rsqrt(); }},
      {"sigmoid", [](const Tensor& t) { return t.sigmoid(); }},
      {"logsigmoid", [](const Tensor& t) { return t.logsigmoid(); }},
      {"relu", [](const Tensor& t) { return t.relu(); }},
      {"leaky_relu", [](const Tensor& t) { return t.leaky_relu(); }},
      {"elu", [](const Tensor& t) { return t.elu(); }},
      {"celu", [](const Tensor& t) { return t.celu(); }},
      {"selu", [](const Tensor& t) { return t.selu(); }},
      {"gelu", [](const Tensor& t) { return t.gelu(); }},
      {"gelu none", [](const Tensor& t) { return t.gelu("none"); }},
      {"silu", [](const Tensor& t) { return t.silu(); }},
      {"mish", [](const Tensor& t) { return t.mish(); }},
      {"softplus", [](const Tensor& t) { return t.softplus(); }},
      {"softsign", [](const Tensor& t) { return t.softsign(); }},
      {"hardswish", [](const Tensor& t) { return t.hardswish(); }},
      {"clamp", [](const Tensor& t) { return t.clamp(-0.5, 0.5); }},
      {"mean", [](const Tensor& t) { return t.mean(1).square(); }},
      {"var", [](const Tensor& t) { return t.var(1); }},
      {"std", [](const Tensor& t) { return t.std(0); }},
      {"max", [](const Tensor& t) { return t.max(1).square(); }},
      {"prod", [](const Tensor& t) { return t.prod(); }},
      {"logsumexp", [](const Tensor& t) { return t.logsumexp(1); }},
      {"softmax", [](const Tensor& t) { return t.softmax().square(); }},
      {"log_softmax", [](const Tensor& t) { return t.log_softmax().square(); }},
      {"cumsum", [](const Tensor& t) { return t.cumsum(1).square(); }},
      {"cumprod", [](const Tensor& t) { return t.cumprod(1).square(); }},
      {"cummax", [](const Tensor& t) { return t.cummax(1).first.square(); }},
      {"sort", [](const Tensor& t) { return t.sort().first * t; }},
      {"dot", [](const Tensor& t) { return t.dot(t.transpose()); }},
      {"slices",
       [](const Tensor& t) {
         return t.at({everything, Slice{0, 2}}) * t.at({everything, Slice{{}, {}, -2}});
       }},
      {"cat", [](const Tensor& t) { return Tensor::cat({t, t.square()}, 1).square(); }},
      {"roll", [](const Tensor& t) { return t.roll(1, 1) * t; }},
  };
  for (const auto& [name, f] : functions) {
    SCOPED_TRACE(name);
    EXPECT_NO_THROW(expect_slope(x, at, f));
  }
}

TEST_F(Backward, GradientChangesNothing) {
  const Tensor w = made({2}, {4, 5}), x = made({2}, {1, 2});
  w.set_requires_grad();
  const Tensor loss = (w * x).sum();
  const std::vector<Tensor> found = loss.gradient({x, w});
  EXPECT_THAT(numbers(found[0]), ElementsAre(4, 5));
  EXPECT_THAT(numbers(found[1]), ElementsAre(1, 2));
  EXPECT_FALSE(w.grad());
  EXPECT_THAT(numbers(loss.gradient({made({2}, {0, 0})}, {}, true)[0]), ElementsAre(0, 0));
}

TEST_F(Backward, WrongUse) {
  const Tensor x = made({2, 3}, {1, 2, 3, 4, 5, 6}), i = made({1}, {1}, dtypes::int32);
  EXPECT_THAT(error_of([&] { x.backward(); }),
              HasSubstr("backward: a loss of shape (2, 3) needs a gradient"));
  EXPECT_THAT(error_of([&] { i.backward(); }), HasSubstr("backward: the loss has dtype int32; only floats"));
  EXPECT_THAT(error_of([&] { x.backward(made({3}, {1, 2, 3})); }),
              HasSubstr("shape (2, 3), the gradient given for it (3,)"));
  EXPECT_THAT(error_of([&] { x.backward(x.cast(dtypes::float16)); }),
              HasSubstr("float32, the gradient given for it float16"));
  EXPECT_THAT(error_of([&] { x.sum().gradient({x, i}); }), HasSubstr("gradient: target 1 has dtype int32"));
  EXPECT_THAT(error_of([&] { x.sum().gradient({x, made({2}, {1, 2})}); }),
              HasSubstr("gradient: the loss does not depend on target 1, of shape (2,)"));
}

TEST_F(Backward, AFailureLeavesGradientsAsTheyWere) {
  const Tensor a = made({2}, {1, 2}), b = made({2}, {3, 4});
  a.set_requires_grad();
  b.set_requires_grad();
  b.set_grad(made({2}, {1, 1}, dtypes::float64));
  EXPECT_THAT(error_of([&] { (a * b).sum().backward(); }), HasSubstr("float64"));
  EXPECT_FALSE(a.grad());
}

}  // namespace
}  // namespace quern
