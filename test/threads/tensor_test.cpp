// Several threads open devices, share tensors, schedule and run.
#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/runtime/device.h"
#include "quern/tensor/core/tensor.h"
#include "test/threads/in_threads.h"

namespace quern {
namespace {

TEST(TensorThreads, OpenOneDevice) {
  std::array<Device*, kThreads> found{};
  in_threads([&](int t) { found[static_cast<size_t>(t)] = &Device::get("INTERP:77"); });
  for (const Device* device : found) EXPECT_EQ(device, found[0]);
}

TEST(TensorThreads, RealizeWhatTheyShare) {
  const Tensor shared = Tensor::arange(16).cast(dtypes::float32) * 2.0;
  std::array<float, kThreads> sums{};
  in_threads(
      [&](int t) { sums[static_cast<size_t>(t)] = (shared + static_cast<double>(t)).sum().item<float>(); });
  for (int t = 0; t < kThreads; t++) EXPECT_EQ(sums[static_cast<size_t>(t)], 240 + 16 * t);
}

TEST(TensorThreads, ScheduleTheSameAndOtherPrograms) {
  in_threads([&](int t) {
    for (int i = 0; i < 4; i++) {
      const int size = 3 + (t + i) % 3;  // threads meet in the schedule cache
      const Tensor x =
          Tensor::arange(static_cast<double>(size * size)).reshape({size, size}).cast(dtypes::float32);
      const Tensor y = (x.softmax(-1) * 2.0).sum();
      EXPECT_NEAR(y.item<float>(), 2.0F * static_cast<float>(size), 1e-4F);
    }
  });
}

TEST(TensorThreads, TakeGradients) {
  in_threads([&](int t) {
    const Tensor x = Tensor::from<float>({1, 2, 3}), w = Tensor::full({3}, static_cast<double>(t));
    const std::vector<Tensor> grads = (x * w * x).sum().gradient({x});
    const float by = 2.0F * static_cast<float>(t);
    EXPECT_EQ(grads[0].to_vector<float>(), (std::vector<float>{by, 2 * by, 3 * by}));
  });
}

TEST(TensorThreads, AssignToTheirOwn) {
  in_threads([&](int t) {
    const Tensor x = Tensor::zeros({8}).contiguous().realize();
    for (int i = 0; i < 5; i++) x.assign(x + static_cast<double>(t)).realize();
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(8, 5.0F * static_cast<float>(t)));
  });
}

}  // namespace
}  // namespace quern
