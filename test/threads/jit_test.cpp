// Several threads capture and replay functions, their own and one that they share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "quern/engine/jit/jit.h"
#include "test/threads/in_threads.h"

namespace quern {
namespace {

using testing::AnyOf;

TEST(JitThreads, CaptureAndReplayTheirOwn) {
  in_threads([&](int t) {
    const Tensor w = Tensor::zeros({4}).contiguous().realize();
    const auto by = static_cast<double>(t);
    const auto step = jit([&](const Tensor& x) {
      w.assign(w + x * by);
      return w + 1;
    });
    for (int i = 1; i <= 8; i++) {
      const Tensor x = Tensor::ones({4});  // threads make and assign tensors while others capture
      const Tensor own = Tensor::zeros({4}).contiguous();
      own.assign(own + 1);
      const std::vector<float> expected(4, static_cast<float>(i * t) + 1);
      EXPECT_EQ(step(x).to_vector<float>(), expected);
      EXPECT_EQ(own.to_vector<float>(), std::vector<float>(4, 1));
    }
  });
}

// What another thread wrote before, and is not run yet, is run once: it is no part of what is captured.
TEST(JitThreads, EarlierWritesOfOthersAreNotReplayed) {
  const Tensor w = Tensor::zeros({4}).contiguous().realize();
  const auto step = jit([&](const Tensor& x) { return w + x; });
  const Tensor x = Tensor::ones({4});
  EXPECT_EQ(step(x).to_vector<float>(), std::vector<float>(4, 1));
  std::thread([&] { w.assign(w + 1); }).join();
  for (int i = 0; i < 4; i++) EXPECT_EQ(step(x).to_vector<float>(), std::vector<float>(4, 2));
  EXPECT_EQ(w.to_vector<float>(), std::vector<float>(4, 1));
}

// One captures while another replays, and forgets what a third one captured.
TEST(JitThreads, ShareOne) {
  const auto step = jit([](const Tensor& x) { return x * 2 + 1; });
  in_threads([&](int t) {
    for (int i = 0; i < 30; i++) {
      const Tensor x = Tensor::full({4}, static_cast<float>(t + i)).contiguous().realize();
      EXPECT_EQ(step(x).to_vector<float>(), std::vector<float>(4, static_cast<float>(2 * (t + i) + 1)));
      if (i % 7 == t) step.reset();
      EXPECT_THAT(step.kernels(), AnyOf(0, 1)) << "what was captured is there, or forgotten";
    }
  });
}

}  // namespace
}  // namespace quern
