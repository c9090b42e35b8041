// Activations.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>

#include "quern/tensor/core/support.h"

namespace quern {

using detail::in_wide_float, detail::like, detail::if_else;

namespace {
// The sigmoid of x, if t is x log2(e), times `factor`. Both of its forms use exp(-|x|), which does not
// overflow: 1 / (1 + e) and e / (1 + e).
Tensor scaled_sigmoid(const Tensor& t, const Tensor& factor) {
  const Tensor e = detail::apply(Op::EXP2, if_else(t.lt(t.neg()), t, t.neg()));
  return if_else(t.lt(0), e, like(e, 1)) * factor * (e + 1).reciprocal();
}

// x Phi(x) in float32: Phi(-|x|) is 2^p(|x|), to 1e-5 of it up to 5.5, and 0 from 14 on.
Tensor float_gelu(const Tensor& x) {
  static constexpr std::array p = {-0.9999999969,    -1.151104325,    -0.4592215076,    -0.05243193484,
                                   0.006919457379,   3.614810076e-05, -0.0003049431684, 8.641648307e-05,
                                   -1.317768771e-05, 1.11598972e-06,  -4.100679428e-08};
  const Tensor size = if_else(x.lt(0), x.neg(), x),
               log = detail::polynomial(if_else(size.gt(14), like(x, 14), size), p);
  const Tensor below = detail::apply(Op::EXP2, if_else(log.gt(0), like(x, 0), log));
  return x * if_else(x.lt(0), below, 1 - below);
}
}  // namespace

Tensor Tensor::sigmoid() const {
  return in_wide_float(*this,
                       [](const Tensor& x) { return scaled_sigmoid(x * std::numbers::log2e, like(x, 1)); });
}

// max(x, 0) + log(1 + exp(-|x|)), for beta = 1.
Tensor Tensor::softplus(double beta) const {
  if (!(beta > 0) || !std::isfinite(beta))
    throw ValueError(fmt::format("softplus: beta is {}; it must be positive", beta));
  return in_wide_float(*this, [&](const Tensor& x) {
    const Tensor scaled = x * beta, size = if_else(scaled.lt(0), scaled.neg(), scaled);
    const Tensor positive = if_else(scaled.lt(0), like(x, 0), scaled);
    return (positive + size.neg().exp().log1p()) / beta;
  });
}
Tensor Tensor::logsigmoid() const {
  return in_wide_float(*this, [](const Tensor& x) { return x.neg().softplus().neg(); });
}

Tensor Tensor::relu() const { return if_else(le(0), like(*this, 0), *this); }
Tensor Tensor::relu6() const { return relu().clamp_max(6); }
Tensor Tensor::hardtanh(double min, double max) const {
  if (min > max)
    throw ValueError(fmt::format("hardtanh: the least value {} is above the greatest {}", min, max));
  return clamp(min, max);
}
Tensor Tensor::leaky_relu(double slope) const {
  return in_wide_float(*this, [&](const Tensor& x) { return if_else(x.lt(0), x * slope, x); });
}

namespace {
// alpha (exp(x / scale) - 1) where x is not positive, x elsewhere. The exponential sees 0 there, so that it
// does not overflow; at 0 the gradient is that from below.
Tensor exponential_below(const Tensor& x, double alpha, double scale) {
  const Tensor positive = x.gt(0);
  return if_else(positive, x, (if_else(positive, like(x, 0), x) / scale).expm1() * alpha);
}
}  // namespace

Tensor Tensor::elu(double alpha) const {
  return in_wide_float(*this, [&](const Tensor& x) { return exponential_below(x, alpha, 1); });
}
Tensor Tensor::celu(double alpha) const {
  if (alpha == 0) throw ValueError("celu: alpha is 0");
  return in_wide_float(*this, [&](const Tensor& x) { return exponential_below(x, alpha, alpha); });
}
Tensor Tensor::selu(double alpha, double gamma) const {
  return in_wide_float(*this, [&](const Tensor& x) { return exponential_below(x, alpha, 1) * gamma; });
}

Tensor Tensor::gelu(const std::string& approximate) const {
  if (approximate != "tanh" && approximate != "none")
    throw ValueError(fmt::format(R"(gelu: approximate is "{}", not "tanh" or "none")", approximate));
  return in_wide_float(*this, [&](const Tensor& x) {
    if (approximate == "none" && x.dtype() == dtypes::float32) return float_gelu(x);
    if (approximate == "none") return x * 0.5 * ((x * std::numbers::sqrt2 * 0.5).erf() + 1);
    // (1 + tanh(u)) / 2 is the sigmoid of 2 u
    const double scale = 2 * std::sqrt(2 * std::numbers::inv_pi) * std::numbers::log2e;
    return scaled_sigmoid(x * detail::multiply_add(x * x, like(x, scale * 0.044715), like(x, scale)), x);
  });
}
Tensor Tensor::quick_gelu() const {
  return in_wide_float(*this,
                       [](const Tensor& x) { return scaled_sigmoid(x * (1.702 * std::numbers::log2e), x); });
}
Tensor Tensor::silu() const {
  return in_wide_float(*this, [](const Tensor& x) { return scaled_sigmoid(x * std::numbers::log2e, x); });
}
Tensor Tensor::mish() const {
  // From 100 on the factor is 1, and its gradient must not meet a large x.
  return in_wide_float(*this, [](const Tensor& x) { return x * x.clamp_max(100).softplus().tanh(); });
}
Tensor Tensor::softsign() const {
  return in_wide_float(*this, [](const Tensor& x) { return x / (if_else(x.lt(0), x.neg(), x) + 1); });
}
Tensor Tensor::hardsigmoid() const {
  return in_wide_float(*this, [](const Tensor& x) { return (x / 6 + 0.5).relu().clamp_max(1); });
}
Tensor Tensor::hardswish() const {
  return in_wide_float(*this, [](const Tensor& x) { return x * (x + 3).relu6() / 6; });
}

}  // namespace quern
