// Layers: plain structs with their tensors, called with an input. Weights begin as those of PyTorch and
// tinygrad do: uniform within 1 / sqrt(number of inputs of an output).
#pragma once

#include "quern/nn/module.h"
#include "quern/tensor/core/options.h"

namespace quern::nn {

struct Linear {
  Tensor weight;  // (out, in)
  std::optional<Tensor> bias;
  QUERN_PARAMETERS(weight, bias)

  Linear(int64_t in_features, int64_t out_features, bool bias = true, const TensorOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};

struct ConvSettings {
  IntList stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  TensorOptions options = {};
};

// Over as many axes as kernel_size has numbers; one number stands for two axes in Conv2d.
struct Conv {
  Tensor weight;  // (out, in / groups, kernel...)
  std::optional<Tensor> bias;
  ConvOptions options;
  QUERN_PARAMETERS(weight, bias)

  Conv(int64_t in_channels, int64_t out_channels, const Ints& kernel_size, const ConvSettings& settings);
  Tensor operator()(const Tensor& x) const;
};
struct Conv1d : Conv {
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, const ConvSettings& settings = {})
      : Conv(in_channels, out_channels, {kernel_size}, settings) {}
};
struct Conv2d : Conv {
  Conv2d(int64_t in_channels, int64_t out_channels, const IntList& kernel_size,
         const ConvSettings& settings = {});
};

struct ConvTransposeSettings {
  IntList stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  TensorOptions options = {};
};

struct ConvTranspose {
  Tensor weight;  // (in, out / groups, kernel...)
  std::optional<Tensor> bias;
  ConvTransposeOptions options;
  QUERN_PARAMETERS(weight, bias)

  ConvTranspose(int64_t in_channels, int64_t out_channels, const Ints& kernel_size,
                const ConvTransposeSettings& settings);
  Tensor operator()(const Tensor& x) const;
};
struct ConvTranspose1d : ConvTranspose {
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                  const ConvTransposeSettings& settings = {})
      : ConvTranspose(in_channels, out_channels, {kernel_size}, settings) {}
};
struct ConvTranspose2d : ConvTranspose {
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, const IntList& kernel_size,
                  const ConvTransposeSettings& settings = {});
};

// A row of `weight` for each integer.
struct Embedding {
  Tensor weight;  // (vocabulary, size)
  QUERN_PARAMETERS(weight)

  Embedding(int64_t vocabulary, int64_t size, const TensorOptions& options = {});
  Tensor operator()(const Tensor& indices) const;
};

// One step of an LSTM: the new (hidden, cell), each (batch, hidden_size). Gates in the order input, forget,
// cell, output.
struct LSTMCell {
  Tensor weight_ih, weight_hh;
  std::optional<Tensor> bias_ih, bias_hh;
  QUERN_PARAMETERS(weight_ih, weight_hh, bias_ih, bias_hh)

  LSTMCell(int64_t input_size, int64_t hidden_size, bool bias = true, const TensorOptions& options = {});
  std::pair<Tensor, Tensor> operator()(const Tensor& x,
                                       const std::optional<std::pair<Tensor, Tensor>>& state = {}) const;
};

}  // namespace quern::nn
