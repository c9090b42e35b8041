// Attention of several heads, and a layer of the encoder of a transformer. Names and shapes of weights are
// those of PyTorch. Inputs are (steps, batch, size), or with batch_first (batch, steps, size).
#pragma once

#include "quern/nn/layers.h"
#include "quern/nn/norms.h"

namespace quern::nn {

// In training, each element is 0 with probability p.
struct Dropout {
  double p;
  QUERN_PARAMETERS()

  explicit Dropout(double p = 0.5);
  Tensor operator()(const Tensor& x) const { return x.dropout(p); }
};

struct MultiheadAttentionSettings {
  double dropout = 0;
  bool bias = true, batch_first = false;
  TensorOptions options = {};
};

// In masks of bools, true is what is not attended to; numbers are added to the scores.
struct AttentionMasks {
  std::optional<Tensor> key_padding = {};  // (batch, steps)
  std::optional<Tensor> attention = {};    // (steps of the query, steps of the key)
  bool causal = false;                     // no step attends to later ones
};

struct MultiheadAttention {
  int64_t heads;
  double dropout;
  bool batch_first;
  Tensor in_proj_weight;  // (3 size, size): for query, key and value
  std::optional<Tensor> in_proj_bias;
  Linear out_proj;
  QUERN_PARAMETERS(in_proj_weight, in_proj_bias, out_proj)

  MultiheadAttention(int64_t size, int64_t heads, const MultiheadAttentionSettings& settings = {});
  // The output, and the weights of attention: their mean over the heads.
  std::pair<Tensor, Tensor> operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const AttentionMasks& masks = {}) const;
};

struct TransformerEncoderSettings {
  int64_t feedforward = 2048;
  double dropout = 0.1, eps = 1e-5;
  std::string activation = "relu";  // or "gelu"
  bool batch_first = false;
  bool norm_first = false;  // norms in front of attention and of the linear layers, not behind
  TensorOptions options = {};
};

struct TransformerEncoderLayer {
  TransformerEncoderSettings settings;
  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  QUERN_PARAMETERS(self_attn, linear1, linear2, norm1, norm2)

  TransformerEncoderLayer(int64_t size, int64_t heads, const TransformerEncoderSettings& settings = {});
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}) const;
};

}  // namespace quern::nn
