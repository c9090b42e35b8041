// Layers of sequences against steps that are computed by hand from their weights, and what they refuse.
#include "quern/nn/recurrent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/nn/attention.h"
#include "quern/nn/state.h"
#include "test/error_of.h"

namespace quern::nn {
namespace {

using testing::HasSubstr;

void expect_close(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.shape(), expected.shape());
  EXPECT_TRUE(got.allclose(expected, 1e-5, 1e-5)) << got << "\n" << expected;
}

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

TEST(Recurrent, NamesOfWeightsAreThoseOfPyTorch) {
  const LSTM layer(3, 4, {.layers = 2, .bias = false, .bidirectional = true});
  EXPECT_THAT(names_of(get_state_dict(layer)),
              testing::UnorderedElementsAre("weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse",
                                            "weight_hh_l0_reverse", "weight_ih_l1", "weight_hh_l1",
                                            "weight_ih_l1_reverse", "weight_hh_l1_reverse"));
  EXPECT_EQ(layer.weights()[2].weight_ih.shape(), (Shape{16, 8}));
}

TEST(Recurrent, AnLstmIsItsCellStepByStep) {
  const LSTM layer(3, 4);
  LSTMCell cell(3, 4);
  const detail::RecurrentWeights& w = layer.weights()[0];
  cell.weight_ih = w.weight_ih, cell.weight_hh = w.weight_hh, cell.bias_ih = w.bias_ih,
  cell.bias_hh = w.bias_hh;
  const Tensor x = Tensor::randn({5, 2, 3}), h = Tensor::randn({1, 2, 4}), c = Tensor::randn({1, 2, 4});
  const auto [outputs, last] = layer(x, std::pair(h, c));
  std::pair<Tensor, Tensor> state(h(0), c(0));
  for (int64_t i = 0; i < 5; i++) {
    state = cell(x(i), state);
    expect_close(outputs(i), state.first);
  }
  expect_close(last.first, state.first.unsqueeze(0));
  expect_close(last.second, state.second.unsqueeze(0));
}

TEST(Recurrent, AGruByItsFormula) {
  const GRU layer(3, 4, {.batch_first = true});
  const detail::RecurrentWeights& w = layer.weights()[0];
  const Tensor x = Tensor::randn({2, 4, 3});
  const auto [outputs, last] = layer(x);
  Tensor h = Tensor::zeros({2, 4});
  for (int64_t i = 0; i < 4; i++) {
    const std::vector<Tensor> in = (x(everything, i).dot(w.weight_ih.T()) + *w.bias_ih).chunk(3, 1),
                              own = (h.dot(w.weight_hh.T()) + *w.bias_hh).chunk(3, 1);
    const Tensor z = (in[1] + own[1]).sigmoid(), n = (in[2] + (in[0] + own[0]).sigmoid() * own[2]).tanh();
    h = (1 - z) * n + z * h;
    expect_close(outputs(everything, i), h);
  }
  expect_close(last, h.unsqueeze(0));
}

TEST(Recurrent, TheSecondDirectionIsTheFirstOfTheReversedSequence) {
  const RNN both(3, 4, {.bidirectional = true}, "relu");
  RNN one(3, 4, {}, "relu");
  StateDict weights;
  for (const auto& [name, t] : get_state_dict(both))
    if (name.ends_with("_reverse")) weights.insert_or_assign(name.substr(0, name.size() - 8), t);
  load_state_dict(one, weights);
  const Tensor x = Tensor::randn({5, 2, 3});
  const auto [outputs, last] = both(x);
  expect_close(outputs(ellipsis, Slice{4, 8}), one(x.flip(0)).first.flip(0));
  expect_close(last(1), one(x.flip(0)).second(0));
}

TEST(Recurrent, GradientsReachTheFirstStep) {
  const LSTM layer(2, 3, {.layers = 2});
  const Tensor x = Tensor::randn({4, 1, 2});
  const Tensor gradient = layer(x).first(-1).sum().gradient({x})[0];
  EXPECT_GT(gradient(0).abs().sum().item<float>(), 0);
}

TEST(Recurrent, WhatDoesNotFitIsRefused) {
  const GRU layer(3, 4);
  EXPECT_THAT(error_of<ShapeError>([&] { (void)layer(Tensor::zeros({5, 2, 4})); }),
              HasSubstr("GRU: the input has shape (5, 2, 4), expected (steps, batch, 3)"));
  EXPECT_THAT(error_of<ShapeError>([&] { (void)layer(Tensor::zeros({5, 2, 3}), Tensor::zeros({2, 2, 4})); }),
              HasSubstr("GRU: the state has shape (2, 2, 4), expected (1, 2, 4)"));
  EXPECT_THAT(error_of<ShapeError>([] { GRU(0, 4); }), HasSubstr("GRU: a size of 0"));
  EXPECT_THAT(error_of<ValueError>([] { RNN(3, 4, {}, "sin"); }), HasSubstr("nonlinearity is \"sin\""));
}

TEST(Attention, IsScaledDotProductAttentionOfItsHeads) {
  const MultiheadAttention layer(6, 2, {.batch_first = true});
  const Tensor x = Tensor::randn({3, 4, 6});
  const auto head = [&](int64_t i) {
    return x.dot(layer.in_proj_weight(Slice{6 * i, 6 * i + 6}).transpose())
        .reshape({3, 4, 2, 3})
        .transpose(1, 2);
  };
  const Tensor expected =
      layer.out_proj(head(0)
                         .scaled_dot_product_attention(head(1), head(2), {}, {.causal = true})
                         .transpose(1, 2)
                         .flatten(2));
  const auto [output, weights] = layer(x, x, x, {.causal = true});
  expect_close(output, expected);
  expect_close(weights.sum(-1), Tensor::ones({3, 4}));
  EXPECT_EQ(weights(0, 0, 1).item<float>(), 0);
  const Tensor padding = Tensor::zeros({3, 4}, {.dtype = dtypes::bool_});
  expect_close(layer(x, x, x, {.key_padding = padding}).first, layer(x, x, x).first);
}

TEST(Attention, AnEncoderLayerAddsToItsInput) {
  TransformerEncoderLayer layer(6, 2, {.feedforward = 8, .norm_first = true});
  EXPECT_EQ(get_state_dict(layer).size(), 12U);
  const Tensor x = Tensor::randn({4, 3, 6});
  const Tensor y = x + layer.self_attn(layer.norm1(x), layer.norm1(x), layer.norm1(x)).first;
  expect_close(layer(x), y + layer.linear2(layer.linear1(layer.norm2(y)).relu()));
}

TEST(Attention, WhatDoesNotFitIsRefused) {
  EXPECT_THAT(error_of<ShapeError>([] { MultiheadAttention(8, 3); }),
              HasSubstr("a size of 8 cannot be divided"));
  EXPECT_THAT(error_of<ValueError>([] { Dropout(2); }), HasSubstr("dropout is 2"));
  EXPECT_THAT(error_of<ValueError>([] { TransformerEncoderLayer(8, 2, {.activation = "sin"}); }),
              HasSubstr("activation is \"sin\""));
}

}  // namespace
}  // namespace quern::nn
