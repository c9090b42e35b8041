#include "quern/nn/optim.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "quern/base/error.h"
#include "quern/nn/state.h"
#include "quern/tensor/core/assign.h"

namespace quern::nn {
namespace {

Tensor norm(const Tensor& x) { return x.square().sum().sqrt(); }

// a / b, and 1 where either is not above 0.
Tensor ratio(const Tensor& a, const Tensor& b) { return a.gt(0).where(b.gt(0).where(a / b, 1), 1); }

bool is_allowed(double value, double least, double most) { return value >= least && value <= most; }

void check(const char* name, const char* what, double value, double least, double most) {
  if (!is_allowed(value, least, most))
    throw ValueError(fmt::format("{}: {} is {}, expected {} to {}", name, what, value, least, most));
}

constexpr double kAny = 1e30;

}  // namespace

Optimizer::Optimizer(const char* name, const std::vector<Tensor>& params, double lr) {
  check(name, "lr", lr, 0, kAny);
  for (const Tensor& p : detail::distinct(params)) {
    if (p.refuses_grad()) continue;
    p.set_requires_grad();
    params_.push_back(p);
  }
  if (params_.empty()) throw Error(fmt::format("{}: there are no parameters to train", name));
  lr_ = number(lr);
}

std::vector<Tensor> Optimizer::zeros() const {
  std::vector<Tensor> result;
  result.reserve(params_.size());
  for (const Tensor& p : params_)
    result.push_back(quern::detail::zeros_beside(p, p.dtype().bits() < 32 ? dtypes::float32 : p.dtype()));
  return result;
}

Tensor Optimizer::number(double value) const {
  const Tensor& p = params_.at(0);
  const bool wide =
      std::ranges::all_of(params_, [](const Tensor& t) { return t.dtype() == dtypes::float64; });
  const DType dtype = wide ? dtypes::float64 : dtypes::float32;
  const Tensor one = Tensor::full({1}, value, {.dtype = dtype, .device = p.device()}).contiguous();
  return p.devices().size() > 1 ? one.shard(p.devices()) : one;
}

double Optimizer::lr() const { return lr_.value().item<double>(); }

void Optimizer::set_lr(double lr) {
  check("set_lr", "lr", lr, 0, kAny);
  lr_.value().assign(lr).realize();
}

void Optimizer::zero_grad() {  // NOLINT(readability-make-member-function-const): it changes the parameters
  for (const Tensor& p : parameters()) p.set_grad({});
}

std::vector<Tensor> Optimizer::changes(const std::vector<Tensor>& grads, std::vector<Tensor>&) {
  return grads;
}

std::vector<Tensor> Optimizer::schedule_step() {
  std::vector<Tensor> grads, updated;
  for (size_t i = 0; i < params_.size(); i++) {
    const std::optional<Tensor> grad = params_[i].grad();
    if (!grad)
      throw ValueError(fmt::format(
          "step: parameter {} of {} has no gradient; was backward() called, and does the loss depend on it?",
          i + 1, params_.size()));
    grads.push_back(params_[i].dtype().bits() < 32 ? grad->f32() : *grad);
  }
  const std::vector<Tensor> steps = changes(grads, updated);
  for (size_t i = 0; i < params_.size(); i++) {
    const Tensor wide = params_[i].dtype().bits() < 32 ? params_[i].f32() : params_[i];
    const Tensor change = changes_have_lr() ? steps[i] : *lr_ * steps[i];
    updated.push_back(params_[i].assign((wide.detach() - change).cast(params_[i].dtype())));
  }
  return updated;
}

void Optimizer::step() { Tensor::realize_all(schedule_step()); }

// ---- SGD and what is like it

SGD::SGD(const char* name, const std::vector<Tensor>& params, const SgdSettings& settings)
    : Optimizer(name, params, settings.lr), settings_(settings) {
  check(name, "momentum", settings.momentum, 0, 1);
  check(name, "weight_decay", settings.weight_decay, 0, kAny);
  if (settings.momentum > 0) velocity_ = zeros();
}
SGD::SGD(const std::vector<Tensor>& params, const SgdSettings& settings) : SGD("SGD", params, settings) {}

Tensor SGD::direction(const Tensor& parameter, const Tensor& grad) const {
  return settings_.weight_decay == 0 ? grad : grad + settings_.weight_decay * parameter.detach();
}

std::vector<Tensor> SGD::changes(const std::vector<Tensor>& grads, std::vector<Tensor>& updated) {
  std::vector<Tensor> steps;
  for (size_t i = 0; i < grads.size(); i++) {
    Tensor g = direction(params_[i], grads[i]);
    if (settings_.classic) g = *lr_ * g;
    if (!velocity_.empty()) {
      updated.push_back(velocity_[i].assign(settings_.momentum * velocity_[i] + g));
      g = settings_.nesterov ? g + settings_.momentum * velocity_[i] : velocity_[i];
    }
    steps.push_back(step_from(params_[i], g));
  }
  return steps;
}

LARS::LARS(const std::vector<Tensor>& params, const LarsSettings& s)
    : SGD("LARS", params,
          {.lr = s.lr,
           .momentum = s.momentum,
           .weight_decay = s.weight_decay,
           .nesterov = s.nesterov,
           .classic = s.classic}),
      trust_(s.trust) {}

Tensor LARS::direction(const Tensor& parameter, const Tensor& grad) const {
  const Tensor p = parameter.detach(), size = norm(p), slope = norm(grad);
  const Tensor scale =
      size.gt(0).where(slope.gt(0).where(trust_ * size / (slope + settings_.weight_decay * size), 1), 1);
  return SGD::direction(parameter, grad) * scale;
}

Muon::Muon(const std::vector<Tensor>& params, const MuonSettings& s)
    : SGD("Muon", params, {.lr = s.lr, .momentum = s.momentum, .nesterov = s.nesterov}),
      steps_(s.steps),
      coefficients_(s.coefficients),
      decay_(s.weight_decay) {
  for (const Tensor& p : params_)
    if (p.ndim() < 2)
      throw ShapeError(fmt::format("Muon: a parameter of {} axes, expected 2 or more", p.ndim()));
}

Tensor Muon::direction(const Tensor&, const Tensor& grad) const { return grad; }

Tensor Muon::step_from(const Tensor& parameter, const Tensor& direction) const {
  const Tensor matrix = direction.reshape({direction.size(0), -1}).newton_schulz(steps_, coefficients_);
  return matrix.reshape(direction.shape()) + decay_ * parameter.detach();
}

// ---- Adam and what is like it

AdamW::AdamW(const char* name, const std::vector<Tensor>& params, const AdamSettings& settings)
    : Optimizer(name, params, settings.lr),
      settings_(settings),
      b1_rest_(number(0)),
      b2_rest_(number(0)),
      m_(zeros()),
      v_(zeros()) {
  check(name, "b1", settings.b1, 0, 1);
  check(name, "b2", settings.b2, 0, 1);
  check(name, "eps", settings.eps, 0, kAny);
  check(name, "weight_decay", settings.weight_decay, 0, kAny);
}
AdamW::AdamW(const std::vector<Tensor>& params, const AdamSettings& settings)
    : AdamW("AdamW", params, settings) {}
Adam::Adam(const std::vector<Tensor>& params, const AdamSettings& settings)
    : AdamW("Adam", params, settings) {}
LAMB::LAMB(const std::vector<Tensor>& params, const AdamSettings& settings)
    : AdamW("LAMB", params, settings) {}

std::vector<Tensor> AdamW::state() const {
  std::vector<Tensor> all{b1_rest_, b2_rest_};
  all.insert(all.end(), m_.begin(), m_.end());
  all.insert(all.end(), v_.begin(), v_.end());
  return all;
}

std::vector<Tensor> AdamW::changes(const std::vector<Tensor>& grads, std::vector<Tensor>& updated) {
  updated.push_back(b1_rest_.assign(b1_rest_ * settings_.b1 + (1 - settings_.b1)));
  updated.push_back(b2_rest_.assign(b2_rest_ * settings_.b2 + (1 - settings_.b2)));
  std::vector<Tensor> steps;
  for (size_t i = 0; i < grads.size(); i++) {
    const Tensor& g = grads[i];
    updated.push_back(m_[i].assign(settings_.b1 * m_[i] + (1 - settings_.b1) * g));
    updated.push_back(v_[i].assign(settings_.b2 * v_[i] + (1 - settings_.b2) * g.square()));
    const Tensor mean = m_[i] / b1_rest_, square = v_[i] / b2_rest_;
    Tensor step = mean / (square.sqrt() + settings_.eps);
    if (settings_.weight_decay != 0) step = step + settings_.weight_decay * params_[i].detach();
    steps.push_back(scaled(params_[i], step));
  }
  return steps;
}

Tensor LAMB::scaled(const Tensor& parameter, const Tensor& step) const {
  return step * ratio(norm(parameter.detach()), norm(step));
}

// ---- groups

OptimizerGroup::OptimizerGroup(std::vector<std::shared_ptr<Optimizer>> parts) : parts_(std::move(parts)) {
  std::set<const void*> seen;
  for (const auto& part : parts_) {
    if (!part) throw ValueError("OptimizerGroup: one of its optimisers is empty");
    for (const Tensor& p : part->parameters()) {
      if (!seen.insert(p.state().get()).second)
        throw ValueError("OptimizerGroup: two of its optimisers have the same parameter");
      params_.push_back(p);
    }
  }
  if (params_.empty()) throw Error("OptimizerGroup: there are no parameters to train");
}

std::vector<Tensor> OptimizerGroup::schedule_step() {
  std::vector<Tensor> updated;
  for (const auto& part : parts_) {
    const std::vector<Tensor> more = part->schedule_step();
    updated.insert(updated.end(), more.begin(), more.end());
  }
  return updated;
}

void OptimizerGroup::set_lr(double lr) {
  for (const auto& part : parts_) part->set_lr(lr);
}

std::vector<Tensor> OptimizerGroup::state() const {
  std::vector<Tensor> all;
  for (const auto& part : parts_) {
    const std::vector<Tensor> more = part->state();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace quern::nn
