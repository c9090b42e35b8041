#include "quern/nn/norms.h"

#include <fmt/format.h>

#include "quern/base/error.h"
#include "quern/tensor/core/training.h"

namespace quern::nn {
namespace {

std::optional<Tensor> filled(bool wanted, const Shape& shape, double value, const TensorOptions& options) {
  if (!wanted) return std::nullopt;
  return Tensor::full(shape, value, options).contiguous();
}

// Statistics: nobody trains them.
std::optional<Tensor> kept(std::optional<Tensor> t) {
  if (t) t->set_requires_grad(false);
  return t;
}

int64_t at_least_one(const char* layer, int64_t size) {
  if (size < 1) throw ShapeError(fmt::format("{}: a size of {}, expected 1 or more", layer, size));
  return size;
}

void check_channels(const char* layer, const Tensor& x, int64_t channels) {
  if (x.ndim() < 2 || x.size(1).is_symbolic() || x.size(1).value() != channels)
    throw ShapeError(
        fmt::format("{}: made for {} channels, the second axis of the input; given an input of {} axes{}",
                    layer, channels, x.ndim(),
                    x.ndim() < 2 || x.size(1).is_symbolic() ? std::string()
                                                            : fmt::format(" with {}", x.size(1).value())));
}

// A number for each channel of x.
Tensor by_channel(const Tensor& values, const Tensor& x) {
  Shape shape(static_cast<size_t>(x.ndim()), 1);
  shape[1] = values.size(0);
  return values.reshape(shape);
}

Tensor scaled_by_channel(Tensor x, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias) {
  if (weight) x = x * by_channel(*weight, x);
  if (bias) x = x + by_channel(*bias, x);
  return x;
}

}  // namespace

BatchNorm::BatchNorm(int64_t channels, const BatchNormSettings& s)
    : weight(filled(s.affine, {at_least_one("BatchNorm", channels)}, 1, s.options)),
      bias(filled(s.affine, {channels}, 0, s.options)),
      running_mean(kept(filled(s.track_running_stats, {channels}, 0, s.options))),
      running_var(kept(filled(s.track_running_stats, {channels}, 1, s.options))),
      num_batches_tracked(*kept(filled(true, {}, 0, {.dtype = dtypes::int64, .device = s.options.device}))),
      eps(s.eps),
      momentum(s.momentum) {}

std::pair<Tensor, Tensor> BatchNorm::statistics(const Tensor& x) const {
  if (running_mean && !is_training()) return {*running_mean, *running_var};
  Ints axes{0};
  for (int64_t i = 2; i < x.ndim(); i++) axes.push_back(i);
  const auto [var, mean] = x.var_mean(axes, false, 0);
  if (running_mean && is_training()) {
    double rest = 1;  // the numbers in each channel
    for (const int64_t i : axes) rest *= static_cast<double>(x.size(i).value());
    const Tensor fair = var.detach() * (rest / std::max(rest - 1, 1.0));
    running_mean->assign(*running_mean * (1 - momentum) +
                         mean.detach().cast(running_mean->dtype()) * momentum);
    running_var->assign(*running_var * (1 - momentum) + fair.cast(running_var->dtype()) * momentum);
    num_batches_tracked.assign(num_batches_tracked + 1);
  }
  return {mean, var};
}

Tensor BatchNorm::operator()(const Tensor& x) const {
  if (running_mean) check_channels("BatchNorm", x, running_mean->size(0).value());
  const auto [mean, var] = statistics(x);
  return x.batchnorm(weight, bias, mean, (var + eps).rsqrt());
}

GroupNorm::GroupNorm(int64_t groups_, int64_t channels_, double eps_, bool affine,
                     const TensorOptions& options)
    : groups(at_least_one("GroupNorm", groups_)),
      channels(at_least_one("GroupNorm", channels_)),
      eps(eps_),
      weight(filled(affine, {channels}, 1, options)),
      bias(filled(affine, {channels}, 0, options)) {
  if (channels % groups != 0)
    throw ShapeError(
        fmt::format("GroupNorm: {} channels cannot be divided among {} groups", channels, groups));
}

Tensor GroupNorm::operator()(const Tensor& x) const {
  check_channels("GroupNorm", x, channels);
  const Tensor y = x.reshape({x.size(0), groups, -1}).layernorm(-1, eps).reshape(x.shape());
  return scaled_by_channel(y, weight, bias);
}

InstanceNorm::InstanceNorm(int64_t channels_, double eps_, bool affine, const TensorOptions& options)
    : channels(at_least_one("InstanceNorm", channels_)),
      eps(eps_),
      weight(filled(affine, {channels}, 1, options)),
      bias(filled(affine, {channels}, 0, options)) {}

Tensor InstanceNorm::operator()(const Tensor& x) const {
  check_channels("InstanceNorm", x, channels);
  const Tensor y = x.reshape({x.size(0), channels, -1}).layernorm(-1, eps).reshape(x.shape());
  return scaled_by_channel(y, weight, bias);
}

LayerNorm::LayerNorm(const IntList& shape_, double eps_, bool affine, const TensorOptions& options)
    : shape(shape_.values()),
      eps(eps_),
      weight(filled(affine, Shape(shape.begin(), shape.end()), 1, options)),
      bias(filled(affine, Shape(shape.begin(), shape.end()), 0, options)) {
  if (shape.empty()) throw ShapeError("LayerNorm: no axes to normalise");
  for (const int64_t s : shape) at_least_one("LayerNorm", s);
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const auto count = static_cast<int64_t>(shape.size());
  Ints axes;
  for (int64_t i = -count; i < 0; i++) {
    const Dim size = x.ndim() >= count ? x.size(i) : Dim(0);
    if (size.is_symbolic() || size.value() != shape[static_cast<size_t>(i + count)])
      throw ShapeError(
          fmt::format("LayerNorm: the last {} axes of the input are not those that it was made for", count));
    axes.push_back(i);
  }
  Tensor y = x.layernorm(axes, eps);
  if (weight) y = y * *weight;
  if (bias) y = y + *bias;
  return y;
}

Tensor LayerNorm2d::operator()(const Tensor& x) const {
  if (x.ndim() != 4) throw ShapeError(fmt::format("LayerNorm2d: an input of {} axes, expected 4", x.ndim()));
  return LayerNorm::operator()(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
}

RMSNorm::RMSNorm(int64_t size, double eps_, bool affine, const TensorOptions& options)
    : eps(eps_), weight(filled(affine, {at_least_one("RMSNorm", size)}, 1, options)) {}

Tensor RMSNorm::operator()(const Tensor& x) const {
  const Tensor wide = x.dtype().bits() < 32 ? x.f32() : x;
  const Tensor y = (wide * (wide.square().mean(-1, true) + eps).rsqrt()).cast(x.dtype());
  return weight ? y * *weight : y;
}

}  // namespace quern::nn
