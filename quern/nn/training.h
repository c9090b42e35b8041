// Around a training step: rates that change over time, gradients that are kept within bounds, and losses that
// are scaled so that narrow floats do not lose them.
#pragma once

#include "quern/nn/optim.h"

namespace quern::nn {

// ---- Rates. A rate is a function of the number of the step, from 0: optimiser.set_lr(rate(i)).

using Rate = std::function<double(int64_t)>;

Rate constant_rate(double lr);
Rate cosine_rate(double from, double to, int64_t steps);  // half a cosine, then `to`
Rate warm_up(Rate rate, int64_t steps);                   // up to it from 0 in a line, over the first steps
Rate one_cycle(double most, int64_t steps, double warm = 0.3,  // up to `most` and down, both by half a cosine
               double start_divisor = 25, double end_divisor = 1e4);

// ---- Gradients

// Scales all gradients so that the norm of all of them together is at most `most`. Returns the norm before.
Tensor clip_grad_norm(const std::vector<Tensor>& params, double most);
void clip_grad_value(const std::vector<Tensor>& params, double most);  // each number to [-most, most]

// ---- Mixed precision

struct LossScalerSettings {
  double scale = 65536, growth = 2, backoff = 0.5;
  int64_t interval = 2000;  // steps without an overflow after which the scale grows
};

// scaler.scale(loss).backward(); scaler.step(optimiser): gradients are divided by the scale again, and a step
// in which one of them is not finite changes nothing but the scale, which becomes smaller.
class LossScaler {
 public:
  explicit LossScaler(const LossScalerSettings& settings = {});
  Tensor scale(const Tensor& loss) const;
  bool step(Optimizer& optimiser);  // false: gradients had overflowed
  double factor() const { return factor_; }

 private:
  LossScalerSettings settings_;
  double factor_;
  int64_t good_steps_ = 0;
};

}  // namespace quern::nn
