// How many kernels programs become, and why: shapes and devices are fixed, so that a change is seen.
#include <gmock/gmock.h>

#include "quern/base/env.h"
#include "quern/tensor/core/tensor.h"
#include "test/schedule/run.h"

namespace quern {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

class KernelCount : public testing::TestWithParam<bool> {
 protected:
  DeviceSpec spec = GetParam() ? gpu_like() : cpu_like();
  Tensor rows = input({64, 512});
};
INSTANTIATE_TEST_SUITE_P(Devices, KernelCount, testing::Bool(),
                         [](const auto& device) { return device.param ? "GpuLike" : "CpuLike"; });

TEST_P(KernelCount, RowsTimesTheirSum) { EXPECT_EQ(kernels(rows * rows.sum(1, true), spec), 1); }

TEST_P(KernelCount, ColumnsTimesTheirSum) { EXPECT_EQ(kernels(rows * rows.sum(0, true), spec), 1); }

TEST_P(KernelCount, RootMeanSquareNorm) {
  EXPECT_EQ(kernels(rows * (rows.square().mean(1, true) + 1e-6).rsqrt() * input({512}), spec), 1);
}

TEST_P(KernelCount, RootOfASum) { EXPECT_EQ(kernels(rows.sum(1).sqrt(), spec), 1); }

TEST_P(KernelCount, GatedProducts) {
  const Tensor w1 = input({512, 256}), w2 = input({512, 256});
  EXPECT_EQ(kernels(rows.matmul(w1).silu() * rows.matmul(w2), spec), 1);
}

TEST_P(KernelCount, Softmax) { EXPECT_EQ(kernels(rows.softmax(), spec), 1); }

// The product is wanted by the maximum, the sum and the quotient: it gets memory, and then the rest is one
// kernel.
TEST_P(KernelCount, SoftmaxOfAProduct) {
  const size_t with_memory = GetParam() ? 1 : 2;  // rows of it fit in LOCAL memory
  const Tensor scores = rows.matmul(input({512, 256}));
  EXPECT_EQ(kernels(scores.softmax(), spec), with_memory);
  EXPECT_EQ(kernels(scores.log_softmax(), spec), with_memory);
  EXPECT_EQ(kernels((scores * 0.5 + input({256})).softmax(), spec), with_memory);
  EXPECT_EQ(kernels(scores.layernorm(), spec), with_memory);
}

TEST_P(KernelCount, LayerNorm) { EXPECT_EQ(kernels(rows.layernorm(), spec), 1); }

// A function, of many instructions, is not computed again for each window or each column; a few operations
// are.
TEST_P(KernelCount, FunctionsBeforeProductsAreComputedOnce) {
  const Tensor images = input({8, 16, 14, 14}), weights = input({32, 16, 3, 3}), w = input({512, 64});
  EXPECT_EQ(kernels(images.relu().conv2d(weights), spec), 1);
  EXPECT_EQ(kernels(images.silu().conv2d(weights), spec), 2);
  EXPECT_THAT(reasons(images.silu().conv2d(weights), spec), Each(HasSubstr("operations would be done")));
  EXPECT_EQ(kernels(rows.relu().matmul(w), spec), 1);
  EXPECT_EQ(kernels(rows.silu().matmul(w), spec), 2);
  EXPECT_EQ(kernels(rows.exp().sum(1), spec), 1);          // each is wanted once
  EXPECT_EQ(kernels(images.exp().max_pool2d(), spec), 1);  // as here
  EXPECT_EQ(kernels(rows.matmul(w.exp().reshape({512, 64})), spec), 2);
}

TEST_P(KernelCount, RowAndColumnSumsCannotBothBeOutside) {
  const Tensor both = rows.sum(0, true) * rows.sum(1, true);
  EXPECT_EQ(kernels(both, spec), 2);
  EXPECT_THAT(reasons(both, spec), Each(HasSubstr("out-of-order ranges")));
}

TEST_P(KernelCount, AWholeTensorTimesItsSumIsNotOneWorkgroup) {
  const Tensor x = input({16 << 20});
  EXPECT_GT(kernels(x * x.sum(), spec), 1);
  EXPECT_THAT(reasons(x * x.sum(), spec), testing::Contains(HasSubstr("too little outer parallelism")));
}

TEST_P(KernelCount, ASmallTensorTimesItsSumIsOneWorkgroup) {
  const Tensor x = input({256});
  EXPECT_EQ(kernels(x * x.sum(), spec), 1);
}

Tensor feed_forward(const Tensor& x, int64_t dim, int64_t hidden) {
  const Tensor w1 = input({dim, hidden}), w2 = input({dim, hidden}), w3 = input({hidden, dim});
  return (x.matmul(w1).silu() * x.matmul(w2)).matmul(w3);
}

TEST(KernelCountOf, AFeedForwardLayerOfOneRowIsNotOneWorkgroup) {
  for (int64_t hidden : {10240, 16384}) {
    const Tensor y = feed_forward(input({1, 2048}), 2048, hidden);
    const Schedule s = schedule_of({y}, gpu_like());
    EXPECT_EQ(s.steps.size(), 2);
    EXPECT_THAT(reasons(y, gpu_like()), testing::Contains(HasSubstr("too little outer parallelism")));
    for (const Step& step : s.steps) EXPECT_LE(local_bytes(step.program), 32768);
  }
}

TEST(KernelCountOf, AFeedForwardLayerStaysWithinLocalMemory) {
  const env::Override everywhere("PCONTIG", 2);
  for (int64_t hidden : {1024, 4096, 10240, 16384}) {
    const Schedule s = schedule_of({feed_forward(input({64, 2048}), 2048, hidden)}, gpu_like());
    EXPECT_EQ(s.steps.size(), hidden * 4 <= 32768 ? 1 : 2) << hidden;
    for (const Step& step : s.steps) EXPECT_LE(local_bytes(step.program), 32768);
  }
}

// Three values of 38912 bytes together, each of them less than 32768.
TEST(KernelCountOf, SeveralLocalStagesShareOneBudget) {
  const env::Override everywhere("PCONTIG", 2);
  const Tensor x = input({64, 256});
  Tensor sum = input({64, 64});
  for (int64_t hidden : {3072, 3328, 3328})
    sum = sum + x.matmul(input({256, hidden})).relu().matmul(input({hidden, 64}));
  int64_t in_all = 0;
  for (const Step& step : schedule_of({sum}, gpu_like()).steps) {
    EXPECT_LE(local_bytes(step.program), 32768);
    in_all += local_bytes(step.program);
  }
  EXPECT_GT(in_all, 0) << "there is something to share";
}

TEST(KernelCountOf, ConvolutionWithBiasAndActivation) {
  const Tensor x = input({4, 16, 32, 32}), w = input({32, 16, 3, 3}), b = input({32});
  EXPECT_EQ(kernels(x.conv2d(w, b).relu(), gpu_like()), 1);
}

TEST(KernelCountOf, ALongReduceInsideAnother) {
  const Tensor mean = input({64, 512}).matmul(input({512, 1024})).mean(0);
  EXPECT_EQ(kernels(mean, cpu_like()), 2);
  EXPECT_THAT(reasons(mean, cpu_like()), Each(HasSubstr("a reduce of 512 steps inside another")));
  EXPECT_EQ(kernels(input({64, 64}).matmul(input({64, 1024})).mean(0), cpu_like()), 1);  // a short one
}

TEST(KernelCountOf, WindowsThatOverlap) {
  const auto pooled = [](int64_t channels, int64_t stride) {
    const Tensor y = input({1, channels, 32, 32}).conv2d(input({8, channels, 3, 3})).relu();
    return y.max_pool2d({3, 3}, {.stride = stride, .padding = 1});
  };
  EXPECT_EQ(kernels(pooled(16, 3), cpu_like()), 1);
  EXPECT_EQ(kernels(pooled(16, 2), cpu_like()), 2);  // each product would be computed twice and more
  EXPECT_EQ(kernels(pooled(3, 2), cpu_like()), 1);   // few of them
  EXPECT_EQ(schedule_of({pooled(16, 2)}, cpu_like()).steps[0].buffers[0].shape()[0].int_value(), 8 * 30 * 30)
      << "without what is around it";
}

TEST(KernelCountOf, ReducesThatNeedEachOtherAtTheSamePlace) {
  const Tensor x = input({16, 4096}), w = input({16, 4096, 2048});
  const Schedule s = schedule_of({x.softmax(1).unsqueeze(1).matmul(w)}, gpu_like());
  // Rows are few, so that the weights are a kernel of their own: its EXP2 is not done for each column of w.
  ASSERT_EQ(s.steps.size(), 3);
  EXPECT_EQ(s.steps[0].buffers.size(), 3) << "the greatest and the sum are one kernel, with both as outputs";
}

// One token of a llama block, dim 2048, 16 heads of 128, hidden 5632, 1024 places in the cache. Each of these
// needs all of the one before it, from more workgroups than one (a row of a product reads the whole vector),
// and none has a reduce twice or fewer workgroups than it could have alone:
//   1 norm  2 q, k and v (v into the cache)  3 rotated q and k (k into the cache)  4 scores  5 their
//   softmax  6 weighted values  7 projection + x  8 norm  9 silu(w1) * w3  10 w2 + x
// Fewer would need products of which one iteration gives both halves that a rotation mixes (3), and a loop
// over the cache that is split among workgroups with a state of several values (4, 5, 6).
TEST(KernelCountOf, OneTokenOfALlamaBlockWithACache) {
  const int64_t dim = 2048, heads = 16, head = 128, places = 1024, hidden = 5632;
  const Dim at = Variable("at", 0, places - 1).bind(17);
  const auto rows = [&](const Tensor& x, int64_t axis, const Dim& begin, const Dim& end) {
    std::vector<std::optional<std::pair<Dim, Dim>>> bounds(static_cast<size_t>(x.ndim()));
    bounds[static_cast<size_t>(axis)] = {begin, end};
    return x.shrink(bounds);
  };
  const auto norm = [&](const Tensor& x) {
    return x * (x.square().mean(-1, true) + 1e-5).rsqrt() * input({dim});
  };
  const Tensor cosines = rows(input({places, head / 2}), 0, at, at + 1),
               sines = rows(input({places, head / 2}), 0, at, at + 1);
  const auto rotated = [&](const Tensor& x) {
    const Tensor a = rows(x, 2, 0, head / 2), b = rows(x, 2, head / 2, head);
    return Tensor::cat({a * cosines - b * sines, a * sines + b * cosines}, -1);
  };
  const Tensor x = input({1, dim}), keys = input({heads, places, head}),
               values = input({heads, places, head});
  const Tensor h = norm(x);
  const auto projected = [&] { return h.matmul(input({dim, dim})).reshape({heads, 1, head}); };
  const Tensor q = rotated(projected()), k = rotated(projected()), v = projected();
  rows(keys, 1, at, at + 1).assign(k);
  rows(values, 1, at, at + 1).assign(v);
  const Tensor scores = q.matmul(rows(keys, 1, 0, at + 1).transpose(-2, -1)) * 0.088388347648;
  const Tensor mixed = scores.softmax(-1).matmul(rows(values, 1, 0, at + 1)).reshape({1, dim});
  const Tensor y = x + mixed.matmul(input({dim, dim}));
  const Tensor f = norm(y);
  const Tensor gated = f.matmul(input({dim, hidden})).silu() * f.matmul(input({dim, hidden}));
  const Tensor z = y + gated.matmul(input({hidden, dim}));
  DeviceSpec spec = gpu_like();
  spec.parallel.cores = 108;
  EXPECT_EQ(schedule_of({z, keys, values}, spec).steps.size(), 10);
}

TEST(KernelCountOf, Elementwise) {
  EXPECT_EQ(kernels((input({64}) + 1).exp().sin() * 2, gpu_like()), 1);
  EXPECT_THAT(reasons((input({64}) + 1).exp().sin() * 2, gpu_like()), IsEmpty());
}

}  // namespace
}  // namespace quern
