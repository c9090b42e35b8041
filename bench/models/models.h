// The networks that benchmarks schedule, over memory without contents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quern/tensor/core/tensor.h"

namespace quern::models {

struct Network {
  std::string device = "NULL";
  std::vector<Tensor> parameters = {};
  Tensor parameter(const Shape& shape) {
    parameters.push_back(Tensor::empty(shape, {.dtype = dtypes::float32, .device = device}));
    return parameters.back();
  }
  Tensor input(const Shape& shape, DType dtype = dtypes::float32) const {
    return Tensor::empty(shape, {.dtype = dtype, .device = device});
  }
};

Tensor resnet18(Network& net, int64_t batch);
Tensor resnet50(Network& net, int64_t batch);

// The loss of a language model over `tokens` (as inputs and targets), with rotary positions and grouped
// queries off.
struct LlamaSize {
  int64_t layers, dim = 4096, hidden = 11008, heads = 32, vocabulary = 32000, tokens = 512;
};
Tensor llama_loss(Network& net, const LlamaSize& size);
std::vector<Tensor> sgd_step(const Tensor& loss, const Network& net);  // the parameters, assigned

// The sum of the last state of an LSTM of 128 units over `steps` inputs.
Tensor lstm_loss(Network& net, int64_t steps);

}  // namespace quern::models
