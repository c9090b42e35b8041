// Normalisation and attention.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "quern/tensor/core/support.h"

namespace quern {

Tensor Tensor::batchnorm(const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                         const Tensor& mean, const Tensor& inverse_std, const Axes& axis) const {
  const Ints axes = detail::resolve_axes("batchnorm", axis, ndim());
  Shape sizes(static_cast<size_t>(ndim()), Dim(1));
  for (const int64_t a : axes) sizes[static_cast<size_t>(a)] = size(a);
  auto along = [&](const Tensor& t, const char* what) {
    Dim all = 1;
    for (const Dim& d : sizes) all = detail::product(all, d);
    if (!detail::same_dims(t.numel(), all))
      throw ShapeError(fmt::format("batchnorm: {} has shape {}, expected as many elements as {}", what,
                                   shape_text(t.shape()), shape_text(sizes)));
    return t.reshape(sizes);
  };
  Tensor x = *this - along(mean, "mean");
  if (weight) x = x * along(*weight, "weight");
  x = x * (detail::same_dims(inverse_std.numel(), numel()) ? inverse_std : along(inverse_std, "inverse_std"));
  return bias ? x + along(*bias, "bias") : x;
}

Tensor Tensor::layernorm(const Axes& axes, double eps) const {
  if (!(eps >= 0)) throw ValueError(fmt::format("layernorm: eps is {}; it must not be negative", eps));
  detail::resolve_axes("layernorm", axes, ndim());
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    const Tensor centred = x - x.mean(axes, true);
    return centred * (centred.square().mean(axes, true) + eps).rsqrt();
  });
}

Tensor Tensor::scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                            const std::optional<Tensor>& mask,
                                            const AttentionOptions& o) const {
  const char* who = "scaled_dot_product_attention";
  for (const Tensor* t : {this, &key, &value}) detail::need_axes(who, *t, 2);
  if (!is_floating_point() || !key.is_floating_point() || !value.is_floating_point())
    throw DTypeError(fmt::format("{}: needs floats, given {}, {} and {}", who, dtype().name(),
                                 key.dtype().name(), value.dtype().name()));
  if (!detail::same_dims(size(-1), key.size(-1)) || !detail::same_dims(key.size(-2), value.size(-2)))
    throw ShapeError(fmt::format("{}: query {}, key {} and value {} do not fit", who, shape_text(shape()),
                                 shape_text(key.shape()), shape_text(value.shape())));
  if (o.causal && mask) throw ValueError(fmt::format("{}: give a mask or causal, not both", who));
  Tensor k = key, v = value;
  if (o.enable_gqa) {
    for (const Tensor* t : {this, &key, &value}) detail::need_axes(who, *t, 3);
    const int64_t heads = detail::int_size(who, *this, -3);
    for (Tensor* t : {&k, &v}) {
      const int64_t own = detail::int_size(who, *t, -3);
      if (own == 0 || heads % own != 0)
        throw ShapeError(
            fmt::format("{}: {} query heads are not a multiple of {} key or value heads", who, heads, own));
      *t = t->repeat_interleave(heads / own, -3);
    }
  }
  const DType computed = promote(detail::sum_dtype(dtype()), key.dtype());
  const double scale = 1 / std::sqrt(static_cast<double>(detail::int_size(who, *this, -1)));
  Tensor scores = dot(k.transpose(-2, -1), computed) * scale;
  if (mask) detail::check_broadcasts(who, "attn_mask", *mask, scores.shape());
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  if (o.causal) {
    const Tensor row = detail::iota(scores.size(-2), dtypes::int64).unsqueeze(-1),
                 column = detail::iota(scores.size(-1), dtypes::int64);
    scores = row.ge(column).where(scores, minus_infinity);
  } else if (mask && mask->dtype().is_bool()) {
    scores = mask->where(scores, minus_infinity);
  } else if (mask) {
    scores = scores + *mask;
  }
  return scores.softmax(-1).cast(dtype()).dropout(o.dropout).dot(v);
}

}  // namespace quern
