#include "quern/nn/layers.h"

#include <fmt/format.h>

#include <cmath>

#include "quern/base/error.h"

namespace quern::nn {
namespace {

void check_sizes(const char* layer, const Ints& sizes) {
  for (const int64_t s : sizes)
    if (s < 1) throw ShapeError(fmt::format("{}: a size of {}, expected 1 or more", layer, s));
}

Tensor within(double bound, const Shape& shape, const TensorOptions& options) {
  return Tensor::uniform(shape, -bound, bound, options);
}

double bound_for(const char* layer, int64_t channels, int64_t groups, const Ints& kernel) {
  check_sizes(layer, kernel);
  check_sizes(layer, {channels, groups});
  if (channels % groups != 0)
    throw ShapeError(
        fmt::format("{}: {} channels cannot be divided among {} groups", layer, channels, groups));
  const int64_t in_group = channels / groups;
  auto inputs = static_cast<double>(in_group);
  for (const int64_t k : kernel) inputs *= static_cast<double>(k);
  return 1 / std::sqrt(inputs);
}

Shape conv_shape(int64_t out, int64_t in, const Ints& kernel) {
  Shape shape{out, in};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  return shape;
}

Ints of_two_axes(const IntList& kernel) {
  const Ints& given = kernel.values();
  return given.size() == 1 ? Ints{given[0], given[0]} : given;
}

std::optional<Tensor> bias_of(bool wanted, double bound, int64_t size, const TensorOptions& options) {
  if (!wanted) return std::nullopt;
  return within(bound, {size}, options);
}

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias, const TensorOptions& options)
    : weight(within(bound_for("Linear", in_features, 1, {out_features > 0 ? 1 : out_features}),
                    {out_features, in_features}, options)),
      bias(bias_of(with_bias, bound_for("Linear", in_features, 1, {}), out_features, options)) {}

Tensor Linear::operator()(const Tensor& x) const { return x.linear(weight.transpose(), bias); }

Conv::Conv(int64_t in, int64_t out, const Ints& kernel, const ConvSettings& s)
    : weight(
          within(bound_for("Conv", in, s.groups, kernel), conv_shape(out, in / s.groups, kernel), s.options)),
      bias(bias_of(s.bias, bound_for("Conv", in, s.groups, kernel), out, s.options)),
      options{.groups = s.groups, .stride = s.stride, .dilation = s.dilation, .padding = s.padding} {
  if (out % s.groups != 0)
    throw ShapeError(
        fmt::format("Conv: {} output channels cannot be divided among {} groups", out, s.groups));
}

Tensor Conv::operator()(const Tensor& x) const { return x.conv2d(weight, bias, options); }

Conv2d::Conv2d(int64_t in, int64_t out, const IntList& kernel, const ConvSettings& settings)
    : Conv(in, out, of_two_axes(kernel), settings) {}

ConvTranspose::ConvTranspose(int64_t in, int64_t out, const Ints& kernel, const ConvTransposeSettings& s)
    : weight(within(bound_for("ConvTranspose", out, s.groups, kernel), conv_shape(in, out / s.groups, kernel),
                    s.options)),
      bias(bias_of(s.bias, bound_for("ConvTranspose", out, s.groups, kernel), out, s.options)),
      options{.groups = s.groups,
              .stride = s.stride,
              .dilation = s.dilation,
              .padding = s.padding,
              .output_padding = s.output_padding} {
  if (in % s.groups != 0)
    throw ShapeError(
        fmt::format("ConvTranspose: {} input channels cannot be divided among {} groups", in, s.groups));
}

Tensor ConvTranspose::operator()(const Tensor& x) const { return x.conv_transpose2d(weight, bias, options); }

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, const IntList& kernel,
                                 const ConvTransposeSettings& settings)
    : ConvTranspose(in, out, of_two_axes(kernel), settings) {}

Embedding::Embedding(int64_t vocabulary, int64_t size, const TensorOptions& options)
    : weight((check_sizes("Embedding", {vocabulary, size}),
              Tensor::glorot_uniform({vocabulary, size}, options))) {}

Tensor Embedding::operator()(const Tensor& indices) const {
  Shape shape = indices.shape();
  const Tensor rows = weight.index_select(0, indices.flatten());
  shape.push_back(weight.size(1));
  return rows.reshape(shape);
}

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, bool with_bias, const TensorOptions& options)
    : weight_ih(within(bound_for("LSTMCell", hidden_size, 1, {}), {4 * hidden_size, input_size}, options)),
      weight_hh(within(bound_for("LSTMCell", hidden_size, 1, {}), {4 * hidden_size, hidden_size}, options)) {
  check_sizes("LSTMCell", {input_size});
  if (with_bias)
    bias_ih = Tensor::zeros({4 * hidden_size}, options).contiguous(),
    bias_hh = Tensor::zeros({4 * hidden_size}, options).contiguous();
}

std::pair<Tensor, Tensor> LSTMCell::operator()(const Tensor& x,
                                               const std::optional<std::pair<Tensor, Tensor>>& state) const {
  const Dim hidden = weight_hh.size(1);
  const Tensor zeros = Tensor::zeros({x.size(0), hidden}, {.dtype = x.dtype(), .device = x.device()});
  const auto& [before, cell] = state.value_or(std::pair(zeros, zeros));
  const Tensor gates =
      x.linear(weight_ih.transpose(), bias_ih) + before.linear(weight_hh.transpose(), bias_hh);
  const std::vector<Tensor> parts = gates.chunk(4, 1);
  const Tensor now = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
  return {(parts[3].sigmoid() * now.tanh()), now};
}

}  // namespace quern::nn
