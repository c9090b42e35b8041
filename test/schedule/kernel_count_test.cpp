// How many kernels programs become, and why: shapes and devices are fixed, so that a change is seen.
#include <gmock/gmock.h>

#include "quern/ir/env.h"
#include "quern/ir/movement.h"
#include "quern/tensor/tensor.h"
#include "test/schedule/run.h"

namespace quern {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

Schedule schedule_of(const std::vector<Tensor>& tensors, const DeviceSpec& spec) {
  UOps effects;
  for (const Tensor& t : tensors) {
    const UOp u = t.uop();
    if (base_of(u).op() == Op::AFTER) {
      effects.push_back(base_of(u));
      continue;
    }
    const UOp b =
        new_buffer(u.dtype(), static_cast<int64_t>(elements_in(u.shape()).vmax()), device_node("INTERP"));
    effects.push_back(after(b, UOps{store(reshape(b, u.shape()), u)}));
  }
  return make_schedule(UOp::sink(effects), [&](const std::string&) -> const DeviceSpec& { return spec; });
}
size_t kernels(const Tensor& t, const DeviceSpec& spec) { return schedule_of({t}, spec).steps.size(); }

// Why the memory between kernels exists; that of the outputs is not among them.
Texts reasons(const Tensor& t, const DeviceSpec& spec) {
  Texts all;
  for (const Step& step : schedule_of({t}, spec).steps)
    if (step.program.op() == Op::SINK)
      for (const std::string& r : step.program.arg().kernel().reasons) all.push_back(r);
  return all;
}

Tensor input(const Shape& shape) {
  return Tensor::empty(shape, {.dtype = dtypes::float32, .device = "INTERP"});
}

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

TEST_P(KernelCount, LayerNorm) { EXPECT_EQ(kernels(rows.layernorm(), spec), 1); }

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
  for (const Step& step : schedule_of({sum}, gpu_like()).steps) EXPECT_LE(local_bytes(step.program), 32768);
}

TEST(KernelCountOf, ConvolutionWithBiasAndActivation) {
  const Tensor x = input({4, 16, 32, 32}), w = input({32, 16, 3, 3}), b = input({32});
  EXPECT_EQ(kernels(x.conv2d(w, b).relu(), gpu_like()), 1);
}

TEST(KernelCountOf, AdamOverTenParameters) {
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

TEST(KernelCountOf, Elementwise) {
  EXPECT_EQ(kernels((input({64}) + 1).exp().sin() * 2, gpu_like()), 1);
  EXPECT_THAT(reasons((input({64}) + 1).exp().sin() * 2, gpu_like()), IsEmpty());
}

TEST(KernelCountOf, MoreBuffersThanADeviceAllows) {
  DeviceSpec spec = gpu_like();
  spec.max_buffers = 8;
  Tensor sum = input({64});
  for (int i = 0; i < 20; i++) sum = sum + input({64});
  const Schedule s = schedule_of({sum}, spec);
  for (const Step& step : s.steps) EXPECT_LE(step.buffers.size(), 8);
  EXPECT_THAT(reasons(sum, spec), AllOf(testing::Not(IsEmpty()), Each(HasSubstr("buffer limit"))));
}

}  // namespace
}  // namespace quern
