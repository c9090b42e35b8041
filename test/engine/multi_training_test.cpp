// Gradients, training steps and random programs on several devices: the same numbers as on one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "quern/tensor/core/tensor.h"
#include "test/engine/tensors.h"

namespace quern {
namespace {

// A network of two layers; what is cut how is up to the caller.
Floats training_step(const std::function<Tensor(const Tensor&, char)>& on) {
  const Tensor x = on(numbers({12, 6}), 'x'), target = on(numbers({12, 4}, 3), 'y');
  const Tensor w1 = on(numbers({6, 12}, 2), 'a'), w2 = on(numbers({12, 4}, 4), 'b');
  w1.set_requires_grad(true), w2.set_requires_grad(true);
  Floats all;
  for (int step = 0; step < 2; step++) {
    const Tensor error = x.matmul(w1).relu().matmul(w2) - target;
    const Tensor loss = (error * error).sum() * 0.0009765625;
    w1.set_grad({}), w2.set_grad({});
    loss.backward();
    for (const Tensor& w : {w1, w2}) {
      const Tensor g = *w.grad();
      w.assign((w - g * 0.0009765625).detach());
    }
    Tensor::realize_all({loss, w1, w2});
    for (const Tensor& t : {loss, w1, w2}) {
      const Floats values = t.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

TEST(MultiTraining, TrainingStep) {
  const Floats expected = training_step([](const Tensor& t, char) { return t; });
  struct Way {
    const char* name;
    std::map<char, std::optional<int64_t>> cut;
  };
  const std::optional<int64_t> none;
  const Way ways[] = {{"the batch is cut", {{'x', 0}, {'y', 0}, {'a', none}, {'b', none}}},
                      {"weights are cut on what they give", {{'x', none}, {'y', none}, {'a', 1}, {'b', 0}}},
                      {"weights are cut on what they take", {{'x', none}, {'y', none}, {'a', 0}, {'b', 1}}},
                      {"everything on the first axis", {{'x', 0}, {'y', 0}, {'a', 0}, {'b', 0}}}};
  for (const Way& way : ways)
    for (const int devices : {2, 4}) {
      const bool divides = way.cut.at('a') != std::optional<int64_t>(0) || devices == 2;
      if (!divides) continue;  // 6 inputs
      const Floats got = training_step([&](const Tensor& t, char which) {
        return t.shard(interps(devices), way.cut.at(which)).realize();
      });
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); i++)
        EXPECT_NEAR(got[i], expected[i], 1e-5 * std::max(1.0F, std::abs(expected[i])))
            << way.name << " " << i;
    }
}

// A network of images: what layers, pooling, a norm and a loss become when the batch is cut.
TEST(MultiTraining, ConvolutionsAreTrainedOnPartsOfTheBatch) {
  auto run = [](int devices) {
    auto on = [&](const Tensor& t, std::optional<int64_t> axis) {
      return devices == 1 ? t : t.shard(interps(devices), axis).realize();
    };
    const Tensor x = on(numbers({6, 2, 6, 6}), 0), w = on(numbers({4, 2, 3, 3}, 2) * 0.125, {}),
                 v = on(numbers({16, 5}, 3) * 0.125, {});
    const Tensor labels = on(Tensor::from(std::vector<int32_t>{0, 4, 2, 1, 3, 2}), 0);
    const Tensor hidden = x.conv2d(w).relu().max_pool2d({2, 2}).flatten(1).layernorm();
    const Tensor loss = hidden.matmul(v).sparse_categorical_crossentropy(labels);
    const std::vector<Tensor> g = loss.gradient({w, v});
    Floats all = loss.to_vector<float>();
    for (const Tensor& t : g) {
      const Floats values = t.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const Floats expected = run(1);
  for (const int devices : {2, 3}) {
    const Floats got = run(devices);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], expected[i], 1e-5) << devices << " " << i;
  }
}

TEST(MultiTraining, GradientsOfWhatWasCut) {
  const Tensor x = numbers({6, 4});
  auto gradient = [&](const std::optional<int64_t>& axis, bool cut) {
    const Tensor y = cut ? x.shard(interps(2), axis) : x;
    return (y * y * y).sum().gradient({x})[0];
  };
  for (const std::optional<int64_t> axis :
       {std::optional<int64_t>(0), std::optional<int64_t>(1), std::optional<int64_t>()})
    EXPECT_EQ(gradient(axis, true).to_vector<float>(), gradient(axis, false).to_vector<float>());
}

// ---- random programs

TEST(MultiProperty, RandomProgramsGiveTheSameNumbers) {
  for (unsigned seed = 0; seed < 60; seed++) {
    std::mt19937 random(seed);
    auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int devices = 2 + pick(3);
    std::string text;
    std::vector<Tensor> plain, spread;
    for (int i = 0; i < 3; i++) {
      plain.push_back(numbers({12, 12}, i));
      const std::optional<int64_t> axis = pick(3) == 2 ? std::nullopt : std::optional<int64_t>(pick(2));
      spread.push_back(plain.back().shard(interps(devices), axis));
      if (pick(2) == 0) spread.back().realize();
      text += fmt::format("x{} cut on {}; ", i, axis.value_or(-1));
    }
    for (int step = 0; step < 8; step++) {
      const auto a = static_cast<size_t>(pick(static_cast<int>(plain.size()))),
                 b = static_cast<size_t>(pick(static_cast<int>(plain.size())));
      const int what = pick(11), axis = pick(2);
      text += fmt::format("{}({}, {}, {}); ", what, a, b, axis);
      auto apply = [&](std::vector<Tensor>& x) {
        auto small = [](const Tensor& t) { return t.minimum(9.0).maximum(-9.0); };
        switch (what) {
          case 0: return x[a] + x[b];
          case 1: return small(x[a] * x[b]);
          case 2: return x[a].permute({1, 0});
          case 3: return x[a].flip(axis);
          case 4: return small(x[a].sum(axis, true)).expand({12, 12});
          case 5: return x[a].max(axis, true).expand({12, 12});
          case 6: return small(x[a].matmul(x[b]));
          case 7:
            return Tensor::cat({x[a].shrink({{{3, 9}}, {{0, 12}}}), x[b].shrink({{{0, 6}}, {{0, 12}}})}, 0);
          case 8: return x[a].shrink({{{0, 12}}, {{1, 12}}}).pad({1, 0});
          case 9:
            return x[a].reshape({12, 3, 4}).sum(2).reshape({12, 3, 1}).expand({12, 3, 4}).reshape({12, 12});
          default: {
            const Tensor y = x[a].clone();
            y.shrink({{{axis, 6 + axis}}, {{2, 9}}}).assign(x[b].shrink({{{0, 6}}, {{1, 8}}}));
            return y + 0.0;
          }
        }
      };
      try {
        Tensor y = apply(spread);
        y.schedule();
        spread.push_back(y);
      } catch (const ShapeError& e) {  // an axis was reshaped away
        ASSERT_EQ(what, 9) << seed << ": " << text << e.what();
        continue;
      }
      plain.push_back(apply(plain));
      if (pick(3) == 0) spread.back().realize();
    }
    for (size_t i = 0; i < plain.size(); i++)
      ASSERT_EQ(spread[i].to_vector<float>(), plain[i].to_vector<float>())
          << "seed " << seed << ", " << devices << " devices, value " << i << ": " << text;
  }
}

}  // namespace
}  // namespace quern
