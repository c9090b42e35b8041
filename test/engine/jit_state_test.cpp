// What a captured function changes and what changes it: weights, random numbers, variables, other jits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/base/env.h"
#include "quern/engine/jit/jit.h"
#include "quern/engine/realize/schedule_cache.h"
#include "quern/runtime/counters.h"
#include "test/engine/tensors.h"

namespace quern {
namespace {

using testing::ElementsAre;

TEST(JitState, WeightsAreUpdatedInPlace) {
  const Tensor w = row({1, 1}).realize(), view = w.reshape({2, 1});
  auto f = jit([&](const Tensor& x) {
    w.assign(w + x);
    return w * 10;
  });
  Floats expected = {1, 1};
  for (int i = 0; i < 5; i++) {
    expected[0] += static_cast<float>(i), expected[1] += 1;
    EXPECT_THAT(f(row({static_cast<float>(i), 1})).to_vector<float>(),
                ElementsAre(10 * expected[0], 10 * expected[1]));
    EXPECT_EQ(w.to_vector<float>(), expected);
    EXPECT_EQ(view.to_vector<float>(), expected);
  }
}

TEST(JitState, WhatReadsTheOldValueKeepsIt) {
  const Tensor w = row({1, 1}).realize();
  auto f = jit([&](const Tensor& x) { w.assign(w + x); });
  std::vector<Tensor> old;
  for (int i = 0; i < 6; i++) {
    old.push_back(w * 2);  // not run yet when w is overwritten
    f(row({1, 2}));
  }
  for (size_t i = 0; i < old.size(); i++)
    EXPECT_THAT(old[i].to_vector<float>(), ElementsAre(2 + 2 * i, 2 + 4 * i));
}

TEST(JitState, WritesOutsideThatAreNotRunYetComeFirst) {
  const Tensor w = row({1, 1}).realize();
  auto f = jit([&](const Tensor& x) { return w * x; });
  for (int i = 0; i < 6; i++) {
    w.assign(w + 1);
    const auto a = static_cast<float>(2 * (i + 2));
    EXPECT_THAT(f(row({2, 2})).to_vector<float>(), ElementsAre(a, a));
  }
}

TEST(JitState, InputsThatAreWritten) {
  auto f = jit([](const Tensor& cache, const Tensor& x) {
    cache.assign(cache + x);
    return cache.sum();
  });
  const Tensor a = row({0, 0}).realize(), b = row({5, 5}).realize();
  for (int i = 0; i < 3; i++) f(a, row({1, 2}));
  const Tensor lazy = b + 0;
  EXPECT_EQ(f(b, row({1, 2})).item<float>(), 13);
  EXPECT_THAT(a.to_vector<float>(), ElementsAre(3, 6));
  EXPECT_THAT(b.to_vector<float>(), ElementsAre(6, 7));
  EXPECT_THAT(lazy.to_vector<float>(), ElementsAre(5, 5));
}

TEST(JitState, AssignToWhatHadNoMemory) {
  const Tensor count = Tensor::zeros({1});
  auto f = jit([&] { count.assign(count + 1); });
  for (int i = 0; i < 5; i++) f();
  EXPECT_EQ(count.item<float>(), 5);
}

// A layer trained by hand; the same with and without capture, to the bit. The inputs are in memory: a sum
// that computes them itself rounds their last product together with its own.
Floats trained(int64_t jit_is) {
  const env::Override set("JIT", jit_is);
  Tensor::manual_seed(7);
  const Tensor w = Tensor::randn({4, 3}).realize().set_requires_grad(),
               b = Tensor::zeros({3}).set_requires_grad();
  auto step = jit([&](const Tensor& x, const Tensor& y) {
    for (const Tensor& p : {w, b}) p.set_grad({});
    const Tensor loss = (x.dropout(0.25).linear(w, b).tanh() - y).square().mean();
    loss.backward();
    for (const Tensor& p : {w, b}) p.assign(p - *p.grad() * 0.1);
    return loss;
  });
  Floats losses;
  for (int i = 0; i < 8; i++)
    losses.push_back(step(Tensor::randn({5, 4}).realize(), Tensor::ones({5, 3})).item<float>());
  const Floats weights = w.to_vector<float>(), biases = b.to_vector<float>();
  losses.insert(losses.end(), weights.begin(), weights.end());
  losses.insert(losses.end(), biases.begin(), biases.end());
  return losses;
}
TEST(JitState, GradientsThatHaveMemoryAreAddedTo) {
  const Tensor w = row({1, 2}).realize().set_requires_grad();
  w.set_grad(row({10, 20}).realize());
  const Tensor kept = *w.grad(), before = kept * 1.0;
  auto f = jit([&](const Tensor& x) {
    const Tensor loss = (w * x).sum();
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 4; i++) EXPECT_EQ(f(row({1, 3})).item<float>(), 7);
  EXPECT_TRUE(f.is_captured());
  EXPECT_THAT(w.grad()->to_vector<float>(), ElementsAre(14, 32));
  EXPECT_THAT(kept.to_vector<float>(), ElementsAre(14, 32));
  EXPECT_THAT(before.to_vector<float>(), ElementsAre(10, 20)) << "as it was when that was written";
}
TEST(JitState, ATrainingStepGivesTheSameNumbers) {
  const Floats plain = trained(0);
  EXPECT_EQ(trained(1), plain);
  EXPECT_EQ(trained(2), plain);
}

TEST(JitState, RandomNumbersAdvanceAsWithoutIt) {
  auto drawn = [](int64_t jit_is) {
    const env::Override set("JIT", jit_is);
    Tensor::manual_seed(UINT64_MAX - 5);
    const Tensor outside = Tensor::rand({2});  // drawn before, run inside
    auto f = jit([&](const Tensor& x) {
      const Tensor a = (x + Tensor::rand({3})).realize();
      Tensor::rand({10});  // drawn and not used
      return Tensor::cat({a, Tensor::randint({4}, 0, 1000).cast(dtypes::float32), outside});
    });
    std::vector<Floats> all;
    for (int i = 0; i < 6; i++) {
      if (i == 4) Tensor::manual_seed(3);
      all.push_back(f(row({1, 2, 3})).to_vector<float>());
      all.push_back(Tensor::rand({2}).to_vector<float>());
      if (i >= 4) all[all.size() - 2].resize(7);  // what was drawn outside has the seed of then
    }
    return all;
  };
  const std::vector<Floats> plain = drawn(0), captured = drawn(1);
  EXPECT_EQ(plain, captured);
  EXPECT_NE(plain[4], plain[6]);
}

TEST(JitState, RandomNumbersAreCompiledOnce) {
  (void)Tensor::rand({5}).to_vector<float>();
  const CacheCounts before = schedule_cache_counts();
  const Floats a = Tensor::rand({5}).to_vector<float>(), b = Tensor::rand({5}).to_vector<float>();
  EXPECT_NE(a, b);
  EXPECT_EQ(schedule_cache_counts().misses, before.misses);
}

TEST(JitState, OneCaptureForAllLengths) {
  const Variable n("n", 1, 4096);
  Floats values(4096, 1);
  const Tensor x = Tensor::from(values, Shape{4096});
  auto f = jit([](const Tensor& a, const Dim& size) {
    const Tensor part = a.shrink({{{Dim(0), size}}}).realize();
    return std::pair(part + 1, part.sum());
  });
  f(x, n.bind(3)), f(x, n.bind(5));
  const CacheCounts before = schedule_cache_counts();
  std::vector<std::pair<Tensor, int64_t>> kept;
  for (int64_t i = 1; i <= 100; i++) {
    const int64_t size = i * 40 + 96;
    const auto [more, sum] = f(x, n.bind(size));
    kept.emplace_back(more, size);
    EXPECT_EQ(sum.shape(), Shape());
    EXPECT_EQ(more.shape(), Shape{n.bind(size)});
    kept.emplace_back(sum, size);
  }
  EXPECT_EQ(schedule_cache_counts().misses, before.misses);
  for (const auto& [t, size] : kept) {
    const Floats got = t.to_vector<float>();
    EXPECT_EQ(got, t.ndim() == 0 ? Floats{static_cast<float>(size)} : Floats(static_cast<size_t>(size), 2));
  }
}

TEST(JitState, InputsOfSymbolicShape) {
  const Variable n("n", 1, 16);
  Floats values(16);
  for (size_t i = 0; i < 16; i++) values[i] = static_cast<float>(i);
  const Tensor x = Tensor::from(values), y = (x * 2).realize();
  auto f = jit([](const Tensor& a) { return a * 2 + 1; });
  for (int64_t i = 1; i < 12; i++) {
    Floats expected;
    for (int64_t k = 0; k < i; k++) expected.push_back(static_cast<float>((i % 2 == 0 ? k : 2 * k) * 2 + 1));
    EXPECT_EQ(f((i % 2 == 0 ? x : y).shrink({{{Dim(0), n.bind(i)}}})).to_vector<float>(), expected) << i;
  }
}

TEST(JitState, JitsInJits) {
  int inner_calls = 0;
  const Tensor w = row({1}).realize();
  auto inner = jit([&](const Tensor& x) {
    inner_calls++;
    w.assign(w + 1);
    return x * w;
  });
  auto outer = jit([&](const Tensor& x) {
    const Tensor first = inner(x + 1);
    return first + inner(x + 2);
  });
  for (int i = 0; i < 5; i++) {
    const float a = 2 * static_cast<float>(i) + 2, b = a + 1;
    EXPECT_EQ(outer(row({10})).item<float>(), 11 * a + 12 * b);
  }
  EXPECT_EQ(inner_calls,
            4);  // twice in the first call of outer (the second is its own capture), twice recorded
  EXPECT_EQ(inner(row({2})).item<float>(), 24);
}

TEST(JitState, SeveralJitsShareWeights) {
  const Tensor w = row({1, 2}).realize();
  auto update = jit([&](const Tensor& x) { w.assign(w + x); });
  auto use = jit([&](const Tensor& x) { return (w * x).sum(); });
  for (int i = 0; i < 5; i++) {
    update(row({1, 1}));
    EXPECT_EQ(use(row({1, 1})).item<float>(), static_cast<float>(3 + 2 * (i + 1)));
  }
}

TEST(JitState, GradientsOfWhatIsAroundIt) {
  const Tensor w = row({1, 2}).realize();
  auto f = jit([&](const Tensor& x) { return (w * x).sum().gradient({w, x}); });
  for (int i = 0; i < 4; i++) {
    const auto a = static_cast<float>(i);
    const std::vector<Tensor> g = f(row({a, 3}));
    EXPECT_THAT(g[0].to_vector<float>(), ElementsAre(a, 3));
    EXPECT_THAT(g[1].to_vector<float>(), ElementsAre(1, 2));
    const Tensor loss = (g[0] * w).sum();  // a result is a tensor like any other
    EXPECT_THAT(loss.gradient({w})[0].to_vector<float>(), ElementsAre(a, 3));
  }
}

}  // namespace
}  // namespace quern
