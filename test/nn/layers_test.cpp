// Layers, forward and backward, against loops over plain numbers; parameters are inputs like any other.
#include "quern/nn/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quern/nn/norms.h"
#include "quern/tensor/core/training.h"
#include "test/error_of.h"
#include "test/ops/row.h"

namespace quern::optest {
namespace {

using namespace nn;

Number sigmoid(Number x) { return 1 / (1 + std::exp(-x)); }

Row layer(const std::string& name, Function<Tensor> ours, Function<Array> reference,
          const std::vector<Ints>& shapes, double ulps = 8) {
  Row row{.name = name,
          .ours = std::move(ours),
          .reference = std::move(reference),
          .inputs = std::vector<Input>(shapes.size()),
          .shapes = {shapes},
          .types = kWide,
          .close = {.ulps = ulps, .whole = true},
          .slope = 1e-8};
  for (size_t i = 0; i < shapes.size(); i++) row.by.push_back(i);
  return row;
}

// Of (batch, channels, height, width) with a square window.
Array conv(const Array& x, const Array& w, const Array& bias, int64_t stride, int64_t padding,
           int64_t groups) {
  const int64_t size = w.shape[2], out = w.shape[0], in = w.shape[1];
  const auto places = [&](int64_t n) { return (n + 2 * padding - size) / stride + 1; };
  Array y(x.dtype, {x.shape[0], out, places(x.shape[2]), places(x.shape[3])});
  each(y.shape, [&](const Ints& i) {
    Number sum = bias({i[1]});
    each(w.shape, [&](const Ints& k) {
      const int64_t row = i[2] * stride + k[2] - padding, column = i[3] * stride + k[3] - padding;
      if (k[0] != i[1] || row < 0 || column < 0 || row >= x.shape[2] || column >= x.shape[3]) return;
      sum += w(k) * x({i[0], i[1] / (out / groups) * in + k[1], row, column});
    });
    y(i) = sum;
  });
  return y;
}

Array conv_transposed(const Array& x, const Array& w, const Array& bias, int64_t stride, int64_t padding) {
  const int64_t size = w.shape[2], out = w.shape[1];
  const auto places = [&](int64_t n) { return (n - 1) * stride - 2 * padding + size; };
  Array y(x.dtype, {x.shape[0], out, places(x.shape[2]), places(x.shape[3])});
  each(y.shape, [&](const Ints& i) { y(i) = bias({i[1]}); });
  each(x.shape, [&](const Ints& i) {
    each(w.shape, [&](const Ints& k) {
      const int64_t row = i[2] * stride + k[2] - padding, column = i[3] * stride + k[3] - padding;
      if (k[0] != i[1] || row < 0 || column < 0 || row >= y.shape[2] || column >= y.shape[3]) return;
      y({i[0], k[1], row, column}) += w(k) * x(i);
    });
  });
  return y;
}

// (numbers - mean) / sqrt(variance + eps)
Numbers normalised(const Numbers& line, Number eps) {
  Number mean = 0, square = 0;
  for (const Number n : line) mean += n / static_cast<Number>(line.size());
  for (const Number n : line) square += (n - mean) * (n - mean) / static_cast<Number>(line.size());
  Numbers out;
  for (const Number n : line) out.push_back((n - mean) / std::sqrt(square + eps));
  return out;
}

// Normalised over all elements for which `key` is the same, then a weight and a bias each.
Array normalised_by(const Array& x, const std::function<int64_t(const Ints&)>& key, Number eps,
                    const std::function<Number(Number, const Ints&)>& behind) {
  std::map<int64_t, Numbers> groups;
  each(x.shape, [&](const Ints& i) { groups[key(i)].push_back(x(i)); });
  for (auto& [k, numbers] : groups) numbers = normalised(numbers, eps);
  std::map<int64_t, size_t> next;
  Array y(x.dtype, x.shape);
  each(x.shape, [&](const Ints& i) { y(i) = behind(groups[key(i)][next[key(i)]++], i); });
  return y;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      layer(
          "Linear",
          [](const Tensors& t) {
            Linear l(3, 4);
            l.weight = t[1], l.bias = t[2];
            return l(t[0]);
          },
          [](const Arrays& a) {
            Array y = matmul(a[0], swapped(a[1], 0, 1));
            each(y.shape, [&](const Ints& i) { y(i) += a[2]({i[1]}); });
            return y;
          },
          {{2, 3}, {4, 3}, {4}}),
      layer(
          "Conv2d",
          [](const Tensors& t) {
            Conv2d l(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2});
            l.weight = t[1], l.bias = t[2];
            return l(t[0]);
          },
          [](const Arrays& a) { return conv(a[0], a[1], a[2], 2, 1, 2); }, {{1, 4, 5, 4}, {6, 2, 3, 3}, {6}}),
      layer(
          "Conv1d",
          [](const Tensors& t) {
            Conv1d l(2, 3, 2);
            l.weight = t[1], l.bias = t[2];
            return l(t[0]);
          },
          [](const Arrays& a) {
            Array y(a[0].dtype, {2, 3, 3});
            each(y.shape, [&](const Ints& i) {
              Number sum = a[2]({i[1]});
              for (int64_t c = 0; c < 2; c++)
                for (int64_t k = 0; k < 2; k++) sum += a[0]({i[0], c, i[2] + k}) * a[1]({i[1], c, k});
              y(i) = sum;
            });
            return y;
          },
          {{2, 2, 4}, {3, 2, 2}, {3}}),
      layer(
          "ConvTranspose2d",
          [](const Tensors& t) {
            ConvTranspose2d l(2, 3, 3, {.stride = 2, .padding = 1});
            l.weight = t[1], l.bias = t[2];
            return l(t[0]);
          },
          [](const Arrays& a) { return conv_transposed(a[0], a[1], a[2], 2, 1); },
          {{1, 2, 3, 2}, {2, 3, 3, 3}, {3}}),
      layer(
          "LSTMCell",
          [](const Tensors& t) {
            LSTMCell l(3, 2);
            l.weight_ih = t[1], l.weight_hh = t[2], l.bias_ih = t[3], l.bias_hh = t[4];
            const auto [h, c] = l(t[0], std::pair(t[5], t[6]));
            return Tensors{h, c};
          },
          [](const Arrays& a) {
            Array h(a[0].dtype, {2, 2}), c(a[0].dtype, {2, 2});
            each(h.shape, [&](const Ints& i) {
              Number gate[4];
              for (int64_t g = 0; g < 4; g++) {
                const int64_t row = 2 * g + i[1];
                gate[g] = a[3]({row}) + a[4]({row});
                for (int64_t k = 0; k < 3; k++) gate[g] += a[0]({i[0], k}) * a[1]({row, k});
                for (int64_t k = 0; k < 2; k++) gate[g] += a[5]({i[0], k}) * a[2]({row, k});
              }
              c(i) = sigmoid(gate[1]) * a[6](i) + sigmoid(gate[0]) * std::tanh(gate[2]);
              h(i) = sigmoid(gate[3]) * std::tanh(c(i));
            });
            return Arrays{h, c};
          },
          {{2, 3}, {8, 3}, {8, 2}, {8}, {8}, {2, 2}, {2, 2}}),
      layer(
          "GroupNorm",
          [](const Tensors& t) {
            GroupNorm l(2, 4, 0.1);
            l.weight = t[1], l.bias = t[2];
            return l(t[0]);
          },
          [](const Arrays& a) {
            return normalised_by(
                a[0], [](const Ints& i) { return 2 * i[0] + i[1] / 2; }, 0.1L,
                [&](Number n, const Ints& i) { return n * a[1]({i[1]}) + a[2]({i[1]}); });
          },
          {{2, 4, 3}, {4}, {4}}, 16),
      layer(
          "InstanceNorm",
          [](const Tensors& t) {
            InstanceNorm l(2, 0.1);
            l.weight = t[1], l.bias = t[2];
            return l(t[0]);
          },
          [](const Arrays& a) {
            return normalised_by(
                a[0], [](const Ints& i) { return 2 * i[0] + i[1]; }, 0.1L,
                [&](Number n, const Ints& i) { return n * a[1]({i[1]}) + a[2]({i[1]}); });
          },
          {{2, 2, 3, 2}, {2}, {2}}, 16),
      layer(
          "LayerNorm",
          [](const Tensors& t) {
            LayerNorm l({3, 2}, 0.1);
            l.weight = t[1], l.bias = t[2];
            return l(t[0]);
          },
          [](const Arrays& a) {
            return normalised_by(
                a[0], [](const Ints& i) { return i[0]; }, 0.1L,
                [&](Number n, const Ints& i) { return n * a[1]({i[1], i[2]}) + a[2]({i[1], i[2]}); });
          },
          {{2, 3, 2}, {3, 2}, {3, 2}}, 16),
      layer(
          "LayerNorm2d",
          [](const Tensors& t) {
            LayerNorm2d l(4, 0.1);
            l.weight = t[1], l.bias = t[2];
            return l(t[0]);
          },
          [](const Arrays& a) {
            return normalised_by(
                a[0], [](const Ints& i) { return (10 * i[0] + i[2]) * 10 + i[3]; }, 0.1L,
                [&](Number n, const Ints& i) { return n * a[1]({i[1]}) + a[2]({i[1]}); });
          },
          {{2, 4, 2, 2}, {4}, {4}}, 16),
      layer(
          "RMSNorm",
          [](const Tensors& t) {
            RMSNorm l(4, 0.1);
            l.weight = t[1];
            return l(t[0]);
          },
          [](const Arrays& a) {
            Array y(a[0].dtype, a[0].shape);
            each(y.shape, [&](const Ints& i) {
              Number square = 0.1L;
              for (int64_t k = 0; k < 4; k++) square += a[0]({i[0], k}) * a[0]({i[0], k}) / 4;
              y(i) = a[0](i) / std::sqrt(square) * a[1]({i[1]});
            });
            return y;
          },
          {{3, 4}, {4}}),
      layer(
          "BatchNorm in training",
          [](const Tensors& t) {
            const Training on;
            BatchNorm l(2, {.eps = 0.1});
            l.weight = t[1], l.bias = t[2];
            return l(t[0]);
          },
          [](const Arrays& a) {
            return normalised_by(
                a[0], [](const Ints& i) { return i[1]; }, 0.1L,
                [&](Number n, const Ints& i) { return n * a[1]({i[1]}) + a[2]({i[1]}); });
          },
          {{3, 2, 2}, {2}, {2}}, 16),
      layer(
          "BatchNorm in use",
          [](const Tensors& t) {
            BatchNorm l(2, {.eps = 0.1});
            l.weight = t[1], l.bias = t[2], l.running_mean = t[3], l.running_var = t[4].square();
            return l(t[0]);
          },
          [](const Arrays& a) {
            Array y(a[0].dtype, a[0].shape);
            each(y.shape, [&](const Ints& i) {
              const Ints c{i[1]};
              y(i) = (a[0](i) - a[3](c)) / std::sqrt(a[4](c) * a[4](c) + 0.1L) * a[1](c) + a[2](c);
            });
            return y;
          },
          {{3, 2, 2}, {2}, {2}, {2}, {2}}, 16),
  };
  return all;
}

TEST(Layers, Values) { expect_all(rows()); }
TEST(Layers, Gradients) { expect_all_gradients(rows()); }

TEST(Layers, EmbeddingTakesRows) {
  const Embedding embedding(5, 3);
  const auto weight = embedding.weight.to_vector<float>();
  const Tensor y = embedding(Tensor::from(std::vector<int32_t>{4, 0, 2, 2}, Shape{2, 2}));
  EXPECT_EQ(y.shape().size(), 3);
  const auto values = y.to_vector<float>();
  const int rows_taken[] = {4, 0, 2, 2};
  for (size_t i = 0; i < 4; i++)
    for (size_t j = 0; j < 3; j++)
      EXPECT_EQ(values[3 * i + j], weight[3 * static_cast<size_t>(rows_taken[i]) + j]);
}

TEST(Layers, RunningStatisticsMoveInTrainingOnly) {
  const BatchNorm norm(1, {.momentum = 0.25});
  const Tensor x = Tensor::from(std::vector<float>{1, 3, 5, 7}, Shape{4, 1});
  norm(x).realize();
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 0);
  EXPECT_FLOAT_EQ(norm.running_mean->item<float>(), 0);
  {
    const Training on;
    norm(x).realize();
    Tensor::realize_all({*norm.running_mean, *norm.running_var, norm.num_batches_tracked});
    EXPECT_FLOAT_EQ(norm.running_mean->item<float>(), 0.25F * 4);
    EXPECT_FLOAT_EQ(norm.running_var->item<float>(), 0.75F + 0.25F * 20 / 3);  // divided by n - 1
    norm(x).realize();
  }
  EXPECT_FLOAT_EQ(norm.running_mean->item<float>(), 0.75F * 1 + 0.25F * 4);
  EXPECT_EQ(norm.num_batches_tracked.item<int>(), 2);
  const float after = norm.running_mean->item<float>();
  norm(x).realize();
  EXPECT_EQ(norm.running_mean->item<float>(), after);
}

TEST(Layers, WeightsBeginWithinTheirBounds) {
  Tensor::manual_seed(3);
  const Linear l(100, 50);
  const auto values = l.weight.to_vector<float>();
  double most = 0, sum = 0;
  for (const float v : values) most = std::max(most, std::abs(static_cast<double>(v))), sum += v;
  EXPECT_LE(most, 0.1);
  EXPECT_GT(most, 0.095);
  EXPECT_NEAR(sum / static_cast<double>(values.size()), 0, 0.005);
  EXPECT_FALSE(Linear(3, 2, false).bias);
  EXPECT_FALSE(Conv2d(3, 2, 3, {.bias = false}).bias);
}

TEST(Layers, DropoutFollowsTheMode) {
  const Tensor x = Tensor::ones({1000});
  EXPECT_EQ(x.dropout(0.5).sum().item<float>(), 1000);
  const Training on;
  EXPECT_TRUE(is_training());
  EXPECT_NE(x.dropout(0.5).sum().item<float>(), 1000);
  {
    const Training off(false);
    EXPECT_EQ(x.dropout(0.5).sum().item<float>(), 1000);
  }
  EXPECT_TRUE(is_training());
}

TEST(Layers, WrongUse) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of([] { Linear l(0, 3); }), HasSubstr("Linear: a size of 0"));
  EXPECT_THAT(error_of([] { Linear l(3, -1); }), HasSubstr("Linear: a size of -1"));
  EXPECT_THAT(error_of([] { Conv2d l(3, 4, 3, {.groups = 2}); }),
              HasSubstr("3 channels cannot be divided among 2 groups"));
  EXPECT_THAT(error_of([] { Conv2d l(4, 3, 3, {.groups = 2}); }), HasSubstr("3 output channels"));
  EXPECT_THAT(error_of([] { Conv2d l(4, 4, 0); }), HasSubstr("a size of 0"));
  EXPECT_THAT(error_of([] { Embedding l(0, 1); }), HasSubstr("Embedding: a size of 0"));
  EXPECT_THAT(error_of([] { GroupNorm l(2, 3); }), HasSubstr("GroupNorm: 3 channels"));
  EXPECT_THAT(error_of([] { BatchNorm(3)(Tensor::ones({2, 4})); }), HasSubstr("made for 3 channels"));
  EXPECT_THAT(error_of([] { BatchNorm(3)(Tensor::ones({3})); }), HasSubstr("an input of 1 axes"));
  EXPECT_THAT(error_of([] { LayerNorm(3)(Tensor::ones({2, 4})); }), HasSubstr("LayerNorm: the last 1 axes"));
  EXPECT_THAT(error_of([] { Linear(3, 4)(Tensor::ones({2, 5})); }), HasSubstr("5"));
}

}  // namespace
}  // namespace quern::optest
