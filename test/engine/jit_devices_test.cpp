// Captured functions on all devices, and across them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/base/env.h"
#include "quern/engine/jit/jit.h"
#include "quern/runtime/device.h"
#include "test/engine/tensors.h"

namespace quern {
namespace {

using testing::ElementsAre;

class JitOn : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      Device::get(GetParam());
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

TEST_P(JitOn, AStepWithStateAndRandomNumbers) {
  auto run = [&](int64_t jit_is) {
    const env::Override set("JIT", jit_is);
    Tensor::manual_seed(1);
    const std::string device = GetParam();
    const Tensor w = Tensor::from(Floats{1, 2, 3, 4}, Shape{2, 2}, {.device = device});
    auto f = jit([&](const Tensor& x) {
      const Tensor y = (x.matmul(w) + 1).realize();
      w.assign(w + y.sum(0) * 0.125);
      return std::pair(y * Tensor::rand({2, 2}, {.device = device}), y.softmax(1));
    });
    std::vector<Floats> all;
    for (int i = 0; i < 5; i++) {
      const auto [a, b] =
          f(Tensor::from(Floats{1, static_cast<float>(i), 0, 1}, Shape{2, 2}, {.device = device}));
      all.push_back(a.to_vector<float>());
      all.push_back(b.to_vector<float>());
      all.push_back(w.to_vector<float>());
    }
    return all;
  };
  const std::vector<Floats> plain = run(0);
  EXPECT_EQ(run(1), plain);
  EXPECT_EQ(run(2), plain);
}

TEST_P(JitOn, SymbolicSizes) {
  const std::string device = GetParam();
  const Variable n("n", 1, 64);
  const Tensor x = Tensor::from(Floats(64, 2), {}, {.device = device});
  auto f = jit([](const Tensor& a, const Dim& size) { return a.shrink({{{Dim(0), size}}}).sum(); });
  for (int64_t i = 1; i < 64; i += 9)
    EXPECT_EQ(f(x, n.bind(i)).item<float>(), static_cast<float>(2 * i)) << i;
}

INSTANTIATE_TEST_SUITE_P(Devices, JitOn, testing::Values("CPU", "INTERP", "LINEAR", "CL"),
                         [](const auto& on) { return std::string(on.param); });

TEST(JitDevices, CopiesBetweenThem) {
  auto f = jit([](const Tensor& x) {
    const Tensor there = (x + 1).to("INTERP:1");
    return std::pair((there * 2).to(default_device()) + x, there);
  });
  for (int i = 0; i < 4; i++) {
    const auto a = static_cast<float>(i);
    const auto [y, there] = f(Tensor::from(Floats{a, 1}));
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(3 * a + 2, 5));
    EXPECT_THAT(there.to_vector<float>(), ElementsAre(a + 1, 2));
    EXPECT_EQ(there.device(), "INTERP:1");
  }
}

TEST(JitDevices, ShardedInputsAndWeights) {
  const std::vector<std::string> devices = interps(2);
  auto run = [&](int64_t jit_is) {
    const env::Override set("JIT", jit_is);
    const Tensor w = numbers({4, 2}).shard(devices).realize();
    auto f = jit([&](const Tensor& x) {
      const Tensor y = x.matmul(w);
      w.assign(w + y.sum(0));
      return std::pair(y, y.sum());
    });
    std::vector<Floats> all;
    for (int i = 0; i < 5; i++) {
      const auto [y, sum] = f(numbers({6, 4}, i).shard(devices, 0));
      all.push_back(y.to_vector<float>());
      all.push_back(sum.to_vector<float>());
      all.push_back(w.to_vector<float>());
    }
    return all;
  };
  EXPECT_EQ(run(1), run(0));
}

TEST(JitDevices, NullRunsNothing) {
  auto f = jit([](const Tensor& x) { return x + 1; });
  for (int i = 0; i < 4; i++) EXPECT_EQ(f(Tensor::empty({4}, {.device = "NULL"})).device(), "NULL");
}

}  // namespace
}  // namespace quern
