// Gradients of convolutions, first and second, against those of sums of shifted parts of the input.
#include <gtest/gtest.h>

#include <cmath>

#include "test/tensor/values.h"

namespace quern {
namespace {

struct ConvCase {
  const char* name;
  Ints input, weight;  // (batch, channels, h, w), (outputs, channels of a group, kh, kw)
  ConvOptions options;
  Ints stride, dilation;  // as in the options
};

// What conv2d computes, without windows.
Tensor by_shifts(const Tensor& x, const Tensor& w, const ConvCase& c) {
  const Tensor padded = x.pad(c.options.padding.values().size() == 1 ? Ints(4, c.options.padding.values()[0])
                                                                     : c.options.padding.values());
  const int64_t groups = c.options.groups, in = c.weight[1], out = c.weight[0] / groups;
  Ints size;
  for (size_t i = 0; i < 2; i++)
    size.push_back(
        (padded.size(static_cast<int64_t>(i) + 2).value() - (c.weight[i + 2] - 1) * c.dilation[i] - 1) /
            c.stride[i] +
        1);
  auto part = [&](int64_t k, size_t i) {
    const int64_t begin = k * c.dilation[i];
    return Slice{begin, begin + (size[i] - 1) * c.stride[i] + 1, c.stride[i]};
  };
  std::optional<Tensor> sum;
  for (int64_t p = 0; p < c.weight[2]; p++)
    for (int64_t q = 0; q < c.weight[3]; q++) {
      const Tensor seen = Tensor(padded(ellipsis, part(p, 0), part(q, 1)))
                              .reshape({c.input[0], groups, 1, in, size[0], size[1]});
      const Tensor by = Tensor(w(ellipsis, p, q)).reshape({1, groups, out, in, 1, 1});
      const Tensor product = (seen * by).sum(3);
      sum = sum ? *sum + product : product;
    }
  return sum->reshape({c.input[0], c.weight[0], size[0], size[1]});
}

std::vector<Tensor> derivatives(const Tensor& y, const Tensor& x, const Tensor& w) {
  const std::vector<Tensor> first = (y * y * y).sum().gradient({x, w});
  const Tensor mixed =
      (first[0] * scattered(x.shape(), 5)).sum() + (first[1] * scattered(w.shape(), 6)).sum();
  const std::vector<Tensor> second = mixed.gradient({x, w});
  return {first[0], first[1], second[0], second[1]};
}

TEST(ConvGradient, FirstAndSecond) {
  const ConvCase cases[] = {
      {"plain", {2, 2, 4, 4}, {3, 2, 3, 2}, {}, {1, 1}, {1, 1}},
      {"padded", {1, 2, 3, 4}, {2, 2, 3, 3}, {.padding = {1, 2, 0, 1}}, {1, 1}, {1, 1}},
      {"stride 2", {1, 1, 6, 5}, {2, 1, 3, 2}, {.stride = 2, .padding = 1}, {2, 2}, {1, 1}},
      {"stride 3, with elements behind the last window",
       {1, 2, 9, 6},
       {1, 2, 4, 1},
       {.stride = {3, 2}},
       {3, 2},
       {1, 1}},
      {"a stride beyond the kernel", {1, 1, 8, 7}, {1, 1, 2, 1}, {.stride = 3}, {3, 3}, {1, 1}},
      {"dilated", {1, 1, 5, 6}, {2, 1, 2, 3}, {.dilation = {3, 2}}, {1, 1}, {3, 2}},
      {"strided and dilated", {1, 1, 7, 6}, {1, 1, 2, 2}, {.stride = 2, .dilation = {3, 2}}, {2, 2}, {3, 2}},
      {"groups", {2, 4, 3, 3}, {6, 2, 2, 2}, {.groups = 2, .stride = {1, 2}, .padding = 1}, {1, 2}, {1, 1}},
  };
  for (const ConvCase& c : cases) {
    SCOPED_TRACE(c.name);
    const auto shape_of = [](const Ints& sizes) { return Shape(sizes.begin(), sizes.end()); };
    const Tensor x = scattered(shape_of(c.input), 1), w = scattered(shape_of(c.weight), 2);
    const std::vector<Tensor> got = derivatives(x.conv2d(w, {}, c.options), x, w),
                              want = derivatives(by_shifts(x, w, c), x, w);
    for (size_t i = 0; i < got.size(); i++) {
      const std::vector<double> a = values(got[i]), b = values(want[i]);
      ASSERT_EQ(a.size(), b.size());
      for (size_t k = 0; k < a.size(); k++)
        ASSERT_NEAR(a[k], b[k], 1e-3 * (1 + std::abs(b[k]))) << "derivative " << i << ", element " << k;
    }
  }
}

// What is not asked for is not computed, and integers have no gradient.
TEST(ConvGradient, OfOneOperand) {
  const Tensor x = counted({1, 1, 3, 3}, dtypes::int32), w = scattered({1, 1, 2, 2}, 1);
  EXPECT_EQ(values(x.conv2d(w).sum().gradient({w})[0]), (std::vector<double>{8, 12, 20, 24}));
}

TEST(ConvGradient, NarrowFloatsAreSummedInFloat32) {
  const Tensor x = Tensor::ones({1, 1, 4096}, {.dtype = dtypes::float16}),
               w = Tensor::ones({1, 1, 1}, {.dtype = dtypes::float16});
  const Tensor g = x.conv2d(w).sum().gradient({w})[0];
  EXPECT_EQ(g.dtype(), dtypes::float16);
  EXPECT_EQ(values(g), (std::vector<double>{4096}));
}

}  // namespace
}  // namespace quern
