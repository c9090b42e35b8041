// Layers that normalise. Those with statistics of the batch distinguish training
// (quern/tensor/core/training.h) from use.
#pragma once

#include "quern/nn/module.h"

namespace quern::nn {

struct BatchNormSettings {
  double eps = 1e-5;
  bool affine = true, track_running_stats = true;
  double momentum = 0.1;
  TensorOptions options = {};
};

// Over all axes but the second. In training by the statistics of the batch, which move the running ones; else
// by the running ones.
struct BatchNorm {
  std::optional<Tensor> weight, bias, running_mean, running_var;
  Tensor num_batches_tracked;
  double eps, momentum;
  QUERN_PARAMETERS(weight, bias, running_mean, running_var, num_batches_tracked)

  explicit BatchNorm(int64_t channels, const BatchNormSettings& settings = {});
  Tensor operator()(const Tensor& x) const;

 private:
  std::pair<Tensor, Tensor> statistics(const Tensor& x) const;  // mean and variance
};
using BatchNorm2d = BatchNorm;
using BatchNorm3d = BatchNorm;

struct GroupNorm {
  int64_t groups, channels;
  double eps;
  std::optional<Tensor> weight, bias;
  QUERN_PARAMETERS(weight, bias)

  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, bool affine = true,
            const TensorOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};

struct InstanceNorm {
  int64_t channels;
  double eps;
  std::optional<Tensor> weight, bias;
  QUERN_PARAMETERS(weight, bias)

  explicit InstanceNorm(int64_t channels, double eps = 1e-5, bool affine = true,
                        const TensorOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};

// Over the last axes.
struct LayerNorm {
  Ints shape;
  double eps;
  std::optional<Tensor> weight, bias;
  QUERN_PARAMETERS(weight, bias)

  explicit LayerNorm(const IntList& shape, double eps = 1e-5, bool affine = true,
                     const TensorOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};

// Over the channels of images (batch, channels, height, width).
struct LayerNorm2d : LayerNorm {
  using LayerNorm::LayerNorm;
  Tensor operator()(const Tensor& x) const;
};

// x / sqrt(mean(x^2) + eps) over the last axis, in float32 at least.
struct RMSNorm {
  double eps;
  std::optional<Tensor> weight;
  QUERN_PARAMETERS(weight)

  explicit RMSNorm(int64_t size, double eps = 1e-6, bool affine = true, const TensorOptions& options = {});
  Tensor operator()(const Tensor& x) const;
};

}  // namespace quern::nn
