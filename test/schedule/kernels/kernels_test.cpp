// Stores that become one kernel, and kernels that are one node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/schedule/run.h"

namespace quern {
namespace {

using testing::IsEmpty;

TEST(Kernels, AdamOverTenParameters) {
  std::vector<Tensor> changed;
  for (int64_t i = 0; i < 10; i++) {
    const Tensor p = input({16 + i, 8}), m = input({16 + i, 8}), v = input({16 + i, 8}),
                 g = input({16 + i, 8});
    m.assign(m * 0.9 + g * 0.1);
    v.assign(v * 0.999 + g * g * 0.001);
    p.assign(p - m / (v.sqrt() + 1e-8) * 0.001);
    changed.insert(changed.end(), {p, m, v});
  }
  EXPECT_LE(schedule_of(changed, gpu_like()).steps.size(), 10);
}

TEST(Kernels, LayersOfOneKindAreOneProgram) {
  const auto layer = [](const Tensor& x) {
    return x + x.conv2d(input({16, 16, 3, 3}), {}, {.padding = 1}).relu() * input({16, 1, 1});
  };
  Tensor x = input({1, 16, 20, 20});
  for (int i = 0; i < 5; i++) x = layer(x);
  const Schedule s = schedule_of({x}, cpu_like());
  ASSERT_EQ(s.steps.size(), 5);
  for (const Step& step : s.steps) EXPECT_TRUE(same(step.program, s.steps[0].program));
  EXPECT_THAT(s.steps[0].reasons, testing::Not(IsEmpty()));
}

TEST(Kernels, OutputsWhoseLoopsAreTheSameInParts) {
  const Tensor x = input({2048}), a = input({16, 2, 128}), b = input({2048});
  const Tensor part = a.shrink({std::nullopt, {{0, 1}}, std::nullopt});
  part.assign((x + 1).reshape({16, 1, 128}));
  b.assign(x + 2);
  EXPECT_EQ(schedule_of({a, b}, gpu_like()).steps.size(), 1);
}

}  // namespace
}  // namespace quern
