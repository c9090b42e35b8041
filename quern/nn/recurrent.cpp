#include "quern/nn/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quern/base/error.h"

namespace quern::nn {
namespace detail {

Recurrent::Recurrent(const char* name, int64_t gates, int64_t input_size, int64_t hidden_size,
                     const RecurrentSettings& settings)
    : name_(name), input_size_(input_size), hidden_size_(hidden_size), settings_(settings) {
  for (const int64_t size : {input_size, hidden_size, settings.layers})
    if (size < 1) throw ShapeError(fmt::format("{}: a size of {}, expected 1 or more", name, size));
  if (!(settings.dropout >= 0 && settings.dropout <= 1))
    throw ValueError(fmt::format("{}: dropout is {}, expected 0 to 1", name, settings.dropout));
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const auto random = [&](const Shape& shape) {
    return Tensor::uniform(shape, -bound, bound, settings.options);
  };
  const int64_t directions = settings.bidirectional ? 2 : 1, rows = gates * hidden_size;
  for (int64_t i = 0; i < settings.layers * directions; i++) {
    RecurrentWeights w{.weight_ih = random({rows, i < directions ? input_size : hidden_size * directions}),
                       .weight_hh = random({rows, hidden_size}),
                       .bias_ih = {},
                       .bias_hh = {}};
    if (settings.bias) {
      w.bias_ih = random({rows});
      w.bias_hh = random({rows});
    }
    weights_.push_back(std::move(w));
  }
}

void Recurrent::each_member(const Visit& visit, const std::string& prefix) const {
  const size_t directions = settings_.bidirectional ? 2 : 1;
  for (size_t i = 0; i < weights_.size(); i++) {
    const std::string end = fmt::format("_l{}{}", i / directions, i % directions == 1 ? "_reverse" : "");
    visit(joined(prefix, "weight_ih" + end), weights_[i].weight_ih);
    visit(joined(prefix, "weight_hh" + end), weights_[i].weight_hh);
    if (weights_[i].bias_ih) visit(joined(prefix, "bias_ih" + end), *weights_[i].bias_ih);
    if (weights_[i].bias_hh) visit(joined(prefix, "bias_hh" + end), *weights_[i].bias_hh);
  }
}

// The inputs' part of the gates is computed of all steps at once; then comes one step after the other.
std::pair<Tensor, RecurrentState> Recurrent::run(const Tensor& given,
                                                 const std::optional<RecurrentState>& state, size_t states,
                                                 const RecurrentStep& step) const {
  if (given.ndim() != 3 || given.size(2) != Dim(input_size_))
    throw ShapeError(fmt::format("{}: the input has shape {}, expected (steps, batch, {}){}", name_,
                                 shape_text(given.shape()), input_size_,
                                 settings_.batch_first ? " with the batch first" : ""));
  Tensor x = settings_.batch_first ? given.transpose(0, 1) : given;
  const int64_t length = x.size(0).value();
  if (length == 0) throw ShapeError(fmt::format("{}: there are no steps", name_));
  const Shape shape{Dim(weights_.size()), x.size(1), Dim(hidden_size_)};
  const RecurrentState begin = state.value_or(
      RecurrentState(states, Tensor::zeros(shape, {.dtype = x.dtype(), .device = x.device()})));
  for (const Tensor& s : begin)
    if (s.shape() != shape)
      throw ShapeError(fmt::format("{}: the state has shape {}, expected {}", name_, shape_text(s.shape()),
                                   shape_text(shape)));
  std::vector<std::vector<Tensor>> ends(states);
  const int64_t directions = settings_.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < settings_.layers; layer++) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; direction++) {
      const int64_t place = layer * directions + direction;
      const RecurrentWeights& w = weights_[static_cast<size_t>(place)];
      const Tensor inputs = x.linear(w.weight_ih.transpose(), w.bias_ih).contiguous();
      RecurrentState now;
      for (const Tensor& s : begin) now.push_back(s(place));
      std::vector<Tensor> each;
      for (int64_t i = 0; i < length; i++) {
        now = step(inputs(direction == 1 ? length - 1 - i : i), now, w);
        each.push_back(now[0]);
      }
      if (direction == 1) std::ranges::reverse(each);
      outputs.push_back(Tensor::stack(each));
      for (size_t s = 0; s < states; s++) ends[s].push_back(now[s]);
    }
    x = Tensor::cat(outputs, -1);
    if (settings_.dropout > 0 && layer + 1 < settings_.layers) x = x.dropout(settings_.dropout);
  }
  RecurrentState last;
  for (const std::vector<Tensor>& e : ends) last.push_back(Tensor::stack(e));
  return {settings_.batch_first ? x.transpose(0, 1) : x, last};
}

}  // namespace detail

namespace {

using detail::RecurrentState, detail::RecurrentWeights;

Tensor recurrent_part(const Tensor& h, const RecurrentWeights& w) {
  return h.linear(w.weight_hh.transpose(), w.bias_hh);
}

std::optional<RecurrentState> one_state(const std::optional<Tensor>& state) {
  if (!state) return std::nullopt;
  return RecurrentState{*state};
}

RecurrentState gru_step(const Tensor& inputs, const RecurrentState& state, const RecurrentWeights& w) {
  const Tensor& h = state[0];
  const std::vector<Tensor> in = inputs.chunk(3, -1), own = recurrent_part(h, w).contiguous().chunk(3, -1);
  const Tensor update = (in[1] + own[1]).sigmoid();
  const Tensor next = (in[2] + (in[0] + own[0]).sigmoid() * own[2]).tanh();
  return {((1 - update) * next + update * h).contiguous()};
}

RecurrentState lstm_step(const Tensor& inputs, const RecurrentState& state, const RecurrentWeights& w) {
  const std::vector<Tensor> gates = (inputs + recurrent_part(state[0], w)).contiguous().chunk(4, -1);
  const Tensor cell = (gates[1].sigmoid() * state[1] + gates[0].sigmoid() * gates[2].tanh()).contiguous();
  return {(gates[3].sigmoid() * cell.tanh()).contiguous(), cell};
}

}  // namespace

RNN::RNN(int64_t input_size, int64_t hidden_size, const RecurrentSettings& settings,
         const std::string& nonlinearity)
    : Recurrent("RNN", 1, input_size, hidden_size, settings), relu_(nonlinearity == "relu") {
  if (nonlinearity != "tanh" && nonlinearity != "relu")
    throw ValueError(fmt::format(R"(RNN: nonlinearity is "{}", not "tanh" or "relu")", nonlinearity));
}

std::pair<Tensor, Tensor> RNN::operator()(const Tensor& x, const std::optional<Tensor>& state) const {
  const auto [outputs, last] =
      run(x, one_state(state), 1, [&](const Tensor& in, const RecurrentState& s, const RecurrentWeights& w) {
        const Tensor total = in + recurrent_part(s[0], w);
        return RecurrentState{(relu_ ? total.relu() : total.tanh()).contiguous()};
      });
  return {outputs, last[0]};
}

std::pair<Tensor, Tensor> GRU::operator()(const Tensor& x, const std::optional<Tensor>& state) const {
  const auto [outputs, last] = run(x, one_state(state), 1, gru_step);
  return {outputs, last[0]};
}

std::pair<Tensor, LSTM::State> LSTM::operator()(const Tensor& x, const std::optional<State>& state) const {
  std::optional<RecurrentState> begin;
  if (state) begin = RecurrentState{state->first, state->second};
  const auto [outputs, last] = run(x, begin, 2, lstm_step);
  return {outputs, {last[0], last[1]}};
}

}  // namespace quern::nn
