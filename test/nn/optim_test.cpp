// Optimisers against the same steps on plain numbers, and what they refuse.
#include "quern/nn/optim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quern/nn/training.h"
#include "test/engine/tensors.h"
#include "test/error_of.h"

namespace quern::nn {
namespace {

using Numbers = std::vector<double>;

// Two parameters, and gradients that depend on them: of the sum of c (w - a)^2.
const std::vector<Numbers> kStart = {{0.5, -1.5, 2, 0.25, -0.75, 1.25}, {3, -2}};
const std::vector<Numbers> kGoal = {{1, 1, -1, 0, 0.5, -0.5}, {-1, 0.5}};

std::vector<Tensor> made(DType dtype = dtypes::float32) {
  std::vector<Tensor> params;
  for (const Numbers& n : kStart) params.push_back(Tensor::from(n).cast(dtype).contiguous().realize());
  params[0] = params[0].reshape({2, 3}).contiguous().realize();
  return params;
}

Tensor loss_of(const std::vector<Tensor>& params) {
  Tensor sum = Tensor::zeros({});
  for (size_t i = 0; i < params.size(); i++) {
    const Tensor goal = Tensor::from(kGoal[i]).cast(params[i].dtype()).reshape(params[i].shape());
    sum = sum + ((params[i] - goal).square() * (static_cast<double>(i) + 0.5)).sum();
  }
  return sum;
}

Numbers gradient(const Numbers& w, size_t i) {
  Numbers g(w.size());
  for (size_t j = 0; j < w.size(); j++) g[j] = 2 * (static_cast<double>(i) + 0.5) * (w[j] - kGoal[i][j]);
  return g;
}

double norm(const Numbers& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

// One step on plain numbers: what is subtracted from parameter i, given its gradient, at step t from 1.
using Step = std::function<Numbers(size_t i, int t, const Numbers& w, const Numbers& g)>;

void expect_steps(Optimizer& optimiser, const std::vector<Tensor>& params, const Step& step) {
  std::vector<Numbers> w = kStart;
  for (int t = 1; t <= 6; t++) {
    optimiser.zero_grad();
    loss_of(params).backward();
    optimiser.step();
    for (size_t i = 0; i < w.size(); i++) {
      const Numbers change = step(i, t, w[i], gradient(w[i], i));
      for (size_t j = 0; j < w[i].size(); j++) w[i][j] -= change[j];
      const Numbers got = params[i].cast(dtypes::float64).to_vector<double>();
      const double tolerance = params[i].dtype() == dtypes::float64 ? 1e-13 : 2e-6;
      for (size_t j = 0; j < w[i].size(); j++)
        EXPECT_NEAR(got[j], w[i][j], tolerance * (1 + std::abs(w[i][j])))
            << "parameter " << i << " element " << j << " step " << t;
    }
  }
}

// Momentum on plain numbers.
struct Momentum {
  double momentum;
  bool nesterov;
  std::vector<Numbers> v = {Numbers(6), Numbers(2)};
  Numbers operator()(size_t i, const Numbers& g) {
    Numbers out(g.size());
    for (size_t j = 0; j < g.size(); j++) {
      v[i][j] = momentum * v[i][j] + g[j];
      out[j] = nesterov ? g[j] + momentum * v[i][j] : v[i][j];
    }
    return out;
  }
};

Numbers times(Numbers x, double factor) {
  for (double& v : x) v *= factor;
  return x;
}
Numbers plus(Numbers x, const Numbers& y, double factor) {
  for (size_t j = 0; j < x.size(); j++) x[j] += factor * y[j];
  return x;
}

TEST(Optimisers, PlainSteps) {
  const auto params = made();
  SGD optimiser(params, {.lr = 0.1});
  expect_steps(optimiser, params,
               [](size_t, int, const Numbers&, const Numbers& g) { return times(g, 0.1); });
}

TEST(Optimisers, MomentumAndDecay) {
  for (const bool nesterov : {false, true}) {
    const auto params = made();
    SGD optimiser(params, {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = nesterov});
    Momentum m{0.9, nesterov};
    expect_steps(optimiser, params, [&](size_t i, int, const Numbers& w, const Numbers& g) {
      return times(m(i, plus(g, w, 0.01)), 0.05);
    });
  }
}

// The step of AdamW, without its rate.
struct Averages {
  double b1, b2, eps, decay;
  std::vector<Numbers> m = {Numbers(6), Numbers(2)}, v = {Numbers(6), Numbers(2)};
  Numbers operator()(size_t i, int t, const Numbers& w, const Numbers& g) {
    Numbers out(g.size());
    for (size_t j = 0; j < g.size(); j++) {
      m[i][j] = b1 * m[i][j] + (1 - b1) * g[j];
      v[i][j] = b2 * v[i][j] + (1 - b2) * g[j] * g[j];
      out[j] =
          m[i][j] / (1 - std::pow(b1, t)) / (std::sqrt(v[i][j] / (1 - std::pow(b2, t))) + eps) + decay * w[j];
    }
    return out;
  }
};

TEST(Optimisers, AveragesOfGradients) {
  const auto params = made();
  Adam optimiser(params, {.lr = 0.1});
  Averages a{0.9, 0.999, 1e-8, 0};
  expect_steps(optimiser, params, [&](size_t i, int t, const Numbers& w, const Numbers& g) {
    return times(a(i, t, w, g), 0.1);
  });
}

TEST(Optimisers, DecayApartFromTheGradient) {
  for (const DType dtype : {dtypes::float32, dtypes::float64}) {
    const auto params = made(dtype);
    AdamW optimiser(params, {.lr = 0.1, .b1 = 0.8, .b2 = 0.95, .eps = 1e-6, .weight_decay = 0.1});
    Averages a{0.8, 0.95, 1e-6, 0.1};
    expect_steps(optimiser, params, [&](size_t i, int t, const Numbers& w, const Numbers& g) {
      return times(a(i, t, w, g), 0.1);
    });
  }
}

TEST(Optimisers, StepsInProportionToTheParameter) {
  {
    const auto params = made();
    LAMB optimiser(params, {.lr = 0.1, .eps = 1e-6, .weight_decay = 0.05});
    Averages a{0.9, 0.999, 1e-6, 0.05};
    expect_steps(optimiser, params, [&](size_t i, int t, const Numbers& w, const Numbers& g) {
      const Numbers step = a(i, t, w, g);
      return times(step, 0.1 * norm(w) / norm(step));
    });
  }
  const auto params = made();
  LARS optimiser(params, {.lr = 0.5, .momentum = 0.9, .weight_decay = 0.01, .trust = 0.1});
  Momentum m{0.9, false};
  expect_steps(optimiser, params, [&](size_t i, int, const Numbers& w, const Numbers& g) {
    const double scale = 0.1 * norm(w) / (norm(g) + 0.01 * norm(w));
    return times(m(i, times(plus(g, w, 0.01), scale)), 0.5);
  });
}

TEST(Optimisers, MuonsStepsAreNearlyOrthogonal) {
  const Tensor w = Tensor::randn({4, 3}).realize(), before = w.clone().realize();
  Muon optimiser({w}, {.lr = 1, .weight_decay = 0});
  (w * Tensor::randn({4, 3})).sum().backward();
  optimiser.step();
  const Tensor step = before - w, product = step.transpose().matmul(step);
  const auto values = product.to_vector<float>();
  for (size_t i = 0; i < 3; i++)
    for (size_t j = 0; j < 3; j++) EXPECT_NEAR(values[3 * i + j], i == j ? 1 : 0, 0.5) << i << " " << j;
}

TEST(Optimisers, ClassicMomentumKeepsTheRateOfEarlierSteps) {
  for (const bool classic : {false, true}) {
    const Tensor w = Tensor::from(std::vector<float>{0}).realize();
    SGD optimiser({w}, {.lr = 1, .momentum = 0.5, .classic = classic});
    for (const double lr : {1.0, 0.0}) {
      optimiser.set_lr(lr);
      optimiser.zero_grad();
      w.sum().backward();
      optimiser.step();
    }
    EXPECT_FLOAT_EQ(w.item<float>(), classic ? -1.5 : -1);
  }
}

TEST(Optimisers, RateIsATensorThatCanBeAssigned) {
  const Tensor w = Tensor::from(std::vector<float>{1}).realize();
  const SGD optimiser({w}, {.lr = 0.5});
  optimiser.lr_in_memory().assign(optimiser.lr_in_memory() / 2).realize();
  EXPECT_DOUBLE_EQ(optimiser.lr(), 0.25);
}

TEST(Optimisers, RateCanChange) {
  const Tensor w = Tensor::from(std::vector<float>{1}).realize();
  SGD optimiser({w}, {.lr = 0.5});
  EXPECT_DOUBLE_EQ(optimiser.lr(), 0.5);
  optimiser.set_lr(0.25);
  (w * 2).sum().backward();
  optimiser.step();
  EXPECT_FLOAT_EQ(w.item<float>(), 0.5F);
}

TEST(Optimisers, GradientsAddUpUntilTheyAreCleared) {
  const Tensor w = Tensor::from(std::vector<float>{1}).realize();
  SGD optimiser({w}, {.lr = 1});
  (w * 2).sum().backward();
  (w * 3).sum().backward();
  EXPECT_FLOAT_EQ(w.grad()->item<float>(), 5);
  optimiser.zero_grad();
  EXPECT_FALSE(w.grad());
}

TEST(Optimisers, Groups) {
  const Tensor a = Tensor::from(std::vector<float>{1}).realize(),
               b = Tensor::from(std::vector<float>{1}).realize();
  OptimizerGroup both({std::make_shared<SGD>(std::vector{a}, SgdSettings{.lr = 1}),
                       std::make_shared<SGD>(std::vector{b}, SgdSettings{.lr = 0.5})});
  (a * 2 + b * 2).sum().backward();
  both.step();
  EXPECT_FLOAT_EQ(a.item<float>(), -1);
  EXPECT_FLOAT_EQ(b.item<float>(), 0);
}

TEST(Optimisers, NarrowParametersAreSteppedInFloat32) {
  const Tensor w = Tensor::from(std::vector<float>{1, 2}).cast(dtypes::bfloat16).contiguous().realize();
  Adam optimiser({w}, {.lr = 0.125});
  (w * 2).sum().backward();
  optimiser.step();
  EXPECT_EQ(w.dtype(), dtypes::bfloat16);
  EXPECT_THAT(w.f32().to_vector<float>(), testing::ElementsAre(0.875F, 1.875F));
}

TEST(Optimisers, OfParametersOnSeveralDevices) {
  const auto trained = [](bool cut) {
    const Tensor w = numbers({4, 2}), x = numbers({3, 4}, 2);
    const Tensor p = cut ? w.shard(interps(2), 0).realize() : w.realize(),
                 given = cut ? x.shard(interps(2)).realize() : x;
    AdamW optimiser({p}, {.lr = 0.25});
    for (int step = 0; step < 3; step++) {
      optimiser.zero_grad();
      given.matmul(p).square().sum().backward();
      optimiser.step();
    }
    return p.to_vector<float>();
  };
  const std::vector<float> whole = trained(false), parts = trained(true);
  ASSERT_EQ(whole.size(), parts.size());
  for (size_t i = 0; i < whole.size(); i++) EXPECT_NEAR(whole[i], parts[i], 1e-5);
}

TEST(Optimisers, WrongUse) {
  using testing::HasSubstr;
  const Tensor w = Tensor::ones({2}).contiguous().realize();
  EXPECT_THAT(error_of([] { SGD optimiser({}); }), HasSubstr("SGD: there are no parameters"));
  EXPECT_THAT(error_of([&] { SGD optimiser({w}, {.lr = -1}); }), HasSubstr("lr is -1"));
  EXPECT_THAT(error_of([&] { Adam optimiser({w}, {.b1 = 2}); }), HasSubstr("b1 is 2"));
  EXPECT_THAT(error_of([&] { SGD optimiser({w}, {.lr = std::nan("")}); }), HasSubstr("lr is nan"));
  EXPECT_THAT(error_of([&] { Adam({w}).step(); }), HasSubstr("parameter 1 of 1 has no gradient"));
  EXPECT_THAT(error_of([&] { Muon optimiser({w}); }), HasSubstr("a parameter of 1 axes"));
  EXPECT_THAT(error_of([&] { SGD optimiser({Tensor::ones({2}, {.dtype = dtypes::int32})}); }),
              HasSubstr("floats"));
  const auto one = std::make_shared<SGD>(std::vector{w});
  EXPECT_THAT(error_of([&] { OptimizerGroup both({one, one}); }), HasSubstr("the same parameter"));
}

TEST(Rates, Shapes) {
  const Rate cosine = cosine_rate(1, 0.5, 10);
  EXPECT_DOUBLE_EQ(cosine(0), 1);
  EXPECT_DOUBLE_EQ(cosine(5), 0.75);
  EXPECT_DOUBLE_EQ(cosine(10), 0.5);
  EXPECT_DOUBLE_EQ(cosine(99), 0.5);
  const Rate warm = warm_up(constant_rate(2), 4);
  EXPECT_DOUBLE_EQ(warm(0), 0.5);
  EXPECT_DOUBLE_EQ(warm(3), 2);
  EXPECT_DOUBLE_EQ(warm(50), 2);
  const Rate cycle = one_cycle(1, 100, 0.3);
  EXPECT_NEAR(cycle(0), 0.04, 1e-12);
  EXPECT_DOUBLE_EQ(cycle(30), 1);
  EXPECT_NEAR(cycle(100), 0.04 / 1e4, 1e-12);
  for (int i = 1; i < 30; i++) EXPECT_GT(cycle(i), cycle(i - 1));
  for (int i = 31; i <= 100; i++) EXPECT_LT(cycle(i), cycle(i - 1));
  EXPECT_THROW(cosine_rate(1, 0, 0), Error);
}

TEST(Clipping, NormAndValue) {
  const Tensor w = Tensor::zeros({2}).contiguous().realize();
  w.set_requires_grad();
  (w * Tensor::from(std::vector<float>{3, 4})).sum().backward();
  EXPECT_FLOAT_EQ(clip_grad_norm({w}, 1).item<float>(), 5);
  const auto clipped = w.grad()->to_vector<float>();
  EXPECT_NEAR(clipped[0], 0.6, 1e-6);
  EXPECT_NEAR(clipped[1], 0.8, 1e-6);
  clip_grad_value({w}, 0.7);
  EXPECT_NEAR(w.grad()->to_vector<float>()[1], 0.7, 1e-6);
  clip_grad_norm({w}, 100);  // small enough already
  EXPECT_NEAR(w.grad()->to_vector<float>()[1], 0.7, 1e-6);
}

TEST(LossScaling, OverflowsAreSkipped) {
  const Tensor w = Tensor::ones({2}).contiguous().realize();
  SGD optimiser({w}, {.lr = 1});
  LossScaler scaler({.scale = 1024, .interval = 2});
  auto step = [&](double slope) {
    optimiser.zero_grad();
    // in float16, where slope * scale may be too much
    scaler.scale((w.cast(dtypes::float16) * slope).sum()).backward();
    return scaler.step(optimiser);
  };
  EXPECT_TRUE(step(0.5));
  EXPECT_THAT(w.to_vector<float>(), testing::Each(0.5F));
  EXPECT_FALSE(step(100));
  EXPECT_EQ(scaler.factor(), 512);
  EXPECT_THAT(w.to_vector<float>(), testing::Each(0.5F));
  EXPECT_TRUE(step(0.25));
  EXPECT_TRUE(step(0.25));
  EXPECT_EQ(scaler.factor(), 1024);
  EXPECT_THAT(w.to_vector<float>(), testing::Each(0.0F));
}

}  // namespace
}  // namespace quern::nn
