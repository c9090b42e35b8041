// RNN, GRU and LSTM over sequences: (steps, batch, input_size), or with batch_first (batch, steps,
// input_size). Names and shapes of weights are those of PyTorch: weight_ih_l0, weight_hh_l0, bias_ih_l0,
// bias_hh_l0, and the same with _reverse for the second direction.
#pragma once

#include "quern/nn/module.h"

namespace quern::nn {

struct RecurrentSettings {
  int64_t layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;  // of what goes from one layer to the next, in training
  bool bidirectional = false;
  TensorOptions options = {};
};

namespace detail {

// The weights of one layer in one direction.
struct RecurrentWeights {
  Tensor weight_ih, weight_hh;
  std::optional<Tensor> bias_ih, bias_hh;
};

// A state is one tensor, or several, each (layers * directions, batch, hidden_size).
using RecurrentState = std::vector<Tensor>;
using RecurrentStep =
    std::function<RecurrentState(const Tensor& inputs, const RecurrentState& state, const RecurrentWeights&)>;

class Recurrent {
 public:
  Recurrent(const char* name, int64_t gates, int64_t input_size, int64_t hidden_size,
            const RecurrentSettings& settings);
  void each_member(const Visit& visit, const std::string& prefix) const;
  const std::vector<RecurrentWeights>& weights() const { return weights_; }

 protected:
  std::pair<Tensor, RecurrentState> run(const Tensor& x, const std::optional<RecurrentState>& state,
                                        size_t states, const RecurrentStep& step) const;

 private:
  const char* name_;
  int64_t input_size_, hidden_size_;
  RecurrentSettings settings_;
  std::vector<RecurrentWeights> weights_;  // of layer 0 forward, layer 0 backward, layer 1 forward, ...
};

}  // namespace detail

// h = tanh(W x + U h), or relu. Calls return the outputs of the last layer, and the state after the last
// step.
class RNN : public detail::Recurrent {
 public:
  RNN(int64_t input_size, int64_t hidden_size, const RecurrentSettings& settings = {},
      const std::string& nonlinearity = "tanh");
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const std::optional<Tensor>& state = {}) const;

 private:
  bool relu_;
};

// Gates in the order reset, update, new.
class GRU : public detail::Recurrent {
 public:
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentSettings& settings = {})
      : Recurrent("GRU", 3, input_size, hidden_size, settings) {}
  std::pair<Tensor, Tensor> operator()(const Tensor& x, const std::optional<Tensor>& state = {}) const;
};

// Gates in the order input, forget, cell, output; the state is (hidden, cell).
class LSTM : public detail::Recurrent {
 public:
  using State = std::pair<Tensor, Tensor>;
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentSettings& settings = {})
      : Recurrent("LSTM", 4, input_size, hidden_size, settings) {}
  std::pair<Tensor, State> operator()(const Tensor& x, const std::optional<State>& state = {}) const;
};

}  // namespace quern::nn
