#include "quern/nn/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "quern/base/error.h"

namespace quern::nn {
namespace {

// From a to b as `part` goes from 0 to 1, by half a cosine.
double between(double a, double b, double part) {
  return b + (a - b) * (1 + std::cos(std::numbers::pi * std::clamp(part, 0.0, 1.0))) / 2;
}

void check_steps(const char* name, int64_t steps) {
  if (steps < 1) throw ValueError(fmt::format("{}: {} steps, expected 1 or more", name, steps));
}

std::vector<Tensor> gradients_of(const char* name, const std::vector<Tensor>& params) {
  std::vector<Tensor> grads;
  for (const Tensor& p : params)
    if (const auto grad = p.grad()) grads.push_back(*grad);
  if (grads.empty()) throw Error(fmt::format("{}: no parameter has a gradient", name));
  return grads;
}

template <class F>
void change_gradients(const std::vector<Tensor>& params, const F& change) {
  for (const Tensor& p : params)
    if (const auto grad = p.grad()) p.set_grad(change(*grad).cast(grad->dtype()));
}

}  // namespace

Rate constant_rate(double lr) {
  return [=](int64_t) { return lr; };
}

Rate cosine_rate(double from, double to, int64_t steps) {
  check_steps("cosine_rate", steps);
  return [=](int64_t i) { return between(from, to, static_cast<double>(i) / static_cast<double>(steps)); };
}

Rate warm_up(Rate rate, int64_t steps) {
  check_steps("warm_up", steps);
  return [rate = std::move(rate), steps](int64_t i) {
    return rate(i) * std::min(1.0, static_cast<double>(i + 1) / static_cast<double>(steps));
  };
}

Rate one_cycle(double most, int64_t steps, double warm, double start_divisor, double end_divisor) {
  check_steps("one_cycle", steps);
  if (!(warm >= 0 && warm <= 1))
    throw ValueError(fmt::format("one_cycle: warm is {}, expected 0 to 1", warm));
  const double start = most / start_divisor, end = start / end_divisor;
  const double top = warm * static_cast<double>(steps);
  return [=](int64_t i) {
    const auto at = static_cast<double>(i);
    if (at < top) return between(start, most, at / top);
    return between(most, end, (at - top) / std::max(static_cast<double>(steps) - top, 1.0));
  };
}

Tensor clip_grad_norm(const std::vector<Tensor>& params, double most) {
  if (!(most > 0))
    throw ValueError(fmt::format("clip_grad_norm: the most is {}, expected more than 0", most));
  std::optional<Tensor> squares;
  for (const Tensor& g : gradients_of("clip_grad_norm", params)) {
    const Tensor part = g.f32().square().sum();
    squares = squares ? *squares + part : part;
  }
  Tensor norm = squares->sqrt();
  const Tensor factor = (most / (norm + 1e-6)).minimum(1);
  change_gradients(params, [&](const Tensor& g) { return g * factor; });
  return norm;
}

void clip_grad_value(const std::vector<Tensor>& params, double most) {
  if (!(most > 0))
    throw ValueError(fmt::format("clip_grad_value: the most is {}, expected more than 0", most));
  gradients_of("clip_grad_value", params);
  change_gradients(params, [&](const Tensor& g) { return g.clamp(-most, most); });
}

LossScaler::LossScaler(const LossScalerSettings& settings) : settings_(settings), factor_(settings.scale) {
  if (!(factor_ > 0))
    throw ValueError(fmt::format("LossScaler: the scale is {}, expected more than 0", factor_));
}

Tensor LossScaler::scale(const Tensor& loss) const { return loss * factor_; }

bool LossScaler::step(Optimizer& optimiser) {
  std::optional<Tensor> finite;
  for (const Tensor& g : gradients_of("LossScaler", optimiser.parameters())) {
    const Tensor part = g.isfinite().all();
    finite = finite ? *finite & part : part;
  }
  if (finite->item<bool>()) {
    change_gradients(optimiser.parameters(), [&](const Tensor& g) { return g.f32() / factor_; });
    optimiser.step();
    if (++good_steps_ >= settings_.interval) factor_ *= settings_.growth, good_steps_ = 0;
    return true;
  }
  factor_ *= settings_.backoff;
  good_steps_ = 0;
  return false;
}

}  // namespace quern::nn
