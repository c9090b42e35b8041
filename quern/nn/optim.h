// Optimisers: each step changes its parameters by their gradients. step() computes all of it together, so
// that it is few kernels; inside a jit nothing else is needed.
//
//   nn::Adam optimiser(nn::get_parameters(model), {.lr = 3e-4});
//   optimiser.zero_grad();
//   loss.backward();
//   optimiser.step();
#pragma once

#include <memory>
#include <vector>

#include "quern/tensor/core/tensor.h"

namespace quern::nn {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  void zero_grad();
  void step();                                  // an Error if a parameter has no gradient
  virtual std::vector<Tensor> schedule_step();  // the same, not yet computed: what to realize

  double lr() const;  // reads it
  virtual void set_lr(double lr);
  const Tensor& lr_in_memory() const { return lr_.value(); }  // assign() to it is seen by jits
  virtual const std::vector<Tensor>& parameters() const { return params_; }
  virtual std::vector<Tensor> state() const { return {}; }  // what it remembers of earlier steps, but for lr

 protected:
  // Those of `params` that do not refuse gradients, each once. From now on they require gradients.
  Optimizer(const char* name, const std::vector<Tensor>& params, double lr);
  Optimizer() = default;

  // The changes to all parameters, which are subtracted from them times lr (unless that is in them already),
  // and in `updated` what else was assigned.
  virtual std::vector<Tensor> changes(const std::vector<Tensor>& grads, std::vector<Tensor>& updated);
  virtual bool changes_have_lr() const { return false; }

  // A zero of float32, or wider, for each element of each parameter.
  std::vector<Tensor> zeros() const;
  Tensor number(double value) const;  // in memory, on the device of the parameters

  std::vector<Tensor> params_;
  std::optional<Tensor> lr_;  // in memory, so that it can change between two runs of one jit
};

struct SgdSettings {
  double lr = 0.001, momentum = 0, weight_decay = 0;
  bool nesterov = false, classic = false;
};

// With momentum: v = momentum * v + g; the step is v, or g + momentum * v with nesterov. If classic, g is lr
// * g here, and the step is not multiplied any more: steps of before keep the lr that they had.
class SGD : public Optimizer {
 public:
  explicit SGD(const std::vector<Tensor>& params, const SgdSettings& settings = {});
  std::vector<Tensor> state() const override { return velocity_; }

 protected:
  SGD(const char* name, const std::vector<Tensor>& params, const SgdSettings& settings);
  std::vector<Tensor> changes(const std::vector<Tensor>& grads, std::vector<Tensor>& updated) override;
  // Before and behind the momentum.
  virtual Tensor direction(const Tensor& parameter, const Tensor& grad) const;
  virtual Tensor step_from(const Tensor& /*parameter*/, const Tensor& direction) const { return direction; }
  bool changes_have_lr() const override { return settings_.classic; }

  SgdSettings settings_;
  std::vector<Tensor> velocity_;
};

struct LarsSettings {
  double lr = 0.001, momentum = 0.9, weight_decay = 1e-4, trust = 0.001;
  bool nesterov = false, classic = true;
};

// SGD whose steps have a size in proportion to the norm of the parameter.
class LARS : public SGD {
 public:
  explicit LARS(const std::vector<Tensor>& params, const LarsSettings& settings = {});

 protected:
  Tensor direction(const Tensor& parameter, const Tensor& grad) const override;

 private:
  double trust_;
};

struct MuonSettings {
  double lr = 0.02, momentum = 0.95, weight_decay = 0.1;
  int64_t steps = 5;
  std::vector<double> coefficients = {3.4445, -4.775, 2.0315};
  bool nesterov = true;
};

// Of matrices (axes behind the first are one): the momentum is made orthogonal.
class Muon : public SGD {
 public:
  explicit Muon(const std::vector<Tensor>& params, const MuonSettings& settings = {});

 protected:
  Tensor direction(const Tensor& parameter, const Tensor& grad) const override;
  Tensor step_from(const Tensor& parameter, const Tensor& direction) const override;

 private:
  int64_t steps_;
  std::vector<double> coefficients_;
  double decay_;
};

struct AdamSettings {
  double lr = 0.001, b1 = 0.9, b2 = 0.999, eps = 1e-8, weight_decay = 0;
};

// Averages of the gradient and of its square, corrected for their start at 0. weight_decay is apart from the
// gradient (that is AdamW; with 0 it is Adam).
class AdamW : public Optimizer {
 public:
  explicit AdamW(const std::vector<Tensor>& params, const AdamSettings& settings = {.weight_decay = 0.01});
  std::vector<Tensor> state() const override;

 protected:
  AdamW(const char* name, const std::vector<Tensor>& params, const AdamSettings& settings);
  std::vector<Tensor> changes(const std::vector<Tensor>& grads, std::vector<Tensor>& updated) override;
  virtual Tensor scaled(const Tensor& /*parameter*/, const Tensor& step) const { return step; }

  AdamSettings settings_;
  Tensor b1_rest_, b2_rest_;  // 1 - b1^t and 1 - b2^t, to all digits also where that is little
  std::vector<Tensor> m_, v_;
};

class Adam : public AdamW {
 public:
  explicit Adam(const std::vector<Tensor>& params, const AdamSettings& settings = {});
};

// AdamW whose steps have a size in proportion to the norm of the parameter.
class LAMB : public AdamW {
 public:
  explicit LAMB(const std::vector<Tensor>& params, const AdamSettings& settings = {.eps = 1e-6});

 protected:
  Tensor scaled(const Tensor& parameter, const Tensor& step) const override;
};

// Several as one, each with parameters of its own.
class OptimizerGroup : public Optimizer {
 public:
  explicit OptimizerGroup(std::vector<std::shared_ptr<Optimizer>> parts);
  std::vector<Tensor> schedule_step() override;
  void set_lr(double lr) override;
  const std::vector<Tensor>& parameters() const override { return params_; }
  std::vector<Tensor> state() const override;

 private:
  std::vector<std::shared_ptr<Optimizer>> parts_;
};

}  // namespace quern::nn
