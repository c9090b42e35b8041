// Losses.
#include <fmt/format.h>

#include <cmath>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/support.h"

namespace quern {
namespace {

void check_reduction(const char* who, const std::string& reduction) {
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    throw ValueError(
        fmt::format("{}: reduction is \"{}\", not \"mean\", \"sum\" or \"none\"", who, reduction));
}
Tensor reduced(const Tensor& loss, const std::string& reduction) {
  return reduction == "mean" ? loss.mean() : reduction == "sum" ? loss.sum() : loss;
}
void check_smoothing(const char* who, double smoothing) {
  if (!(smoothing >= 0 && smoothing <= 1))
    throw ValueError(fmt::format("{}: label_smoothing is {}; it must be in [0, 1]", who, smoothing));
}
void check_same_shape(const char* who, const Tensor& x, const Tensor& target) {
  if (!same_sizes(x.uop().shape(), target.uop().shape()))
    throw ShapeError(fmt::format("{}: predictions {} and targets {} differ in shape", who,
                                 shape_text(x.shape()), shape_text(target.shape())));
}

// Targets that are numbers of classes have the shape of x without the axis of classes. Where all are one
// number that is known, it is that of a class, or the one that is ignored.
void check_classes(const char* who, const Tensor& x, int64_t axis, const Tensor& target,
                   std::optional<int64_t> ignored = {}) {
  Shape expected = x.shape();
  expected.erase(expected.begin() + axis);
  if (!same_sizes(target.uop().shape(), sizes_of(expected)))
    throw ShapeError(fmt::format("{}: classes have shape {}, expected {} for predictions {}", who,
                                 shape_text(target.shape()), shape_text(expected), shape_text(x.shape())));
  const UOp value = viewed_by(target.uop());
  if (!value.is_const()) return;
  const wide given = value.value().integer(target.dtype());
  if ((given < 0 || given >= x.size(axis).max()) && given != ignored)
    throw IndexError(fmt::format("{}: class {} is not one of the {} classes from 0 on", who, to_string(given),
                                 x.size(axis).text()));
}

// Of each row the value of its class. A class that does not exist gives NaN: a loss that is 0 there would
// look like a good one.
Tensor of_class(const Tensor& x, int64_t axis, const Tensor& target) {
  const Tensor wanted = target.cast(dtypes::int64);
  const Tensor hit = wanted.unsqueeze(axis).eq(detail::positions(x, axis, dtypes::int64));
  const Tensor exists = wanted.ge(0) & wanted.lt(Tensor::from_dim(x.size(axis), dtypes::int64));
  return exists.where(hit.where(x, 0).sum(axis, false, x.dtype()), std::nan(""));
}

}  // namespace

Tensor Tensor::cross_entropy(const Tensor& target, const std::string& reduction,
                             double label_smoothing) const {
  check_reduction("cross_entropy", reduction);
  check_smoothing("cross_entropy", label_smoothing);
  detail::need_axes("cross_entropy", *this, 1);
  const int64_t axis = ndim() == 1 ? 0 : 1;
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    const Tensor log_p = x.log_softmax(axis);
    Tensor likelihood = log_p;
    if (target.is_floating_point()) {
      check_same_shape("cross_entropy", *this, target);
      likelihood = (log_p * target).sum(axis, false, log_p.dtype());
    } else {
      check_classes("cross_entropy", *this, axis, target);
      likelihood = of_class(log_p, axis, target);
    }
    if (label_smoothing > 0)
      likelihood = likelihood * (1 - label_smoothing) + log_p.mean(axis) * label_smoothing;
    return reduced(likelihood.neg(), reduction);
  });
}

Tensor Tensor::sparse_categorical_crossentropy(const Tensor& target, int64_t ignore_index,
                                               double label_smoothing, const std::string& reduction) const {
  const char* who = "sparse_categorical_crossentropy";
  check_reduction(who, reduction);
  check_smoothing(who, label_smoothing);
  detail::need_axes(who, *this, 1);
  detail::need_integers(who, "the targets", target);
  check_classes(who, *this, ndim() - 1, target,
                ignore_index == -1 ? std::nullopt : std::optional(ignore_index));
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    const int64_t axis = ndim() - 1;
    const Tensor log_p = x.log_softmax(axis);
    const Tensor counted =
        ignore_index == -1 ? Tensor::full(target.shape(), true) : target.cast(dtypes::int64).ne(ignore_index);
    Tensor likelihood = of_class(log_p, axis, target) * (1 - label_smoothing);
    if (label_smoothing > 0) likelihood = likelihood + log_p.mean(axis) * label_smoothing;
    const Tensor loss = counted.where(likelihood.neg(), 0);
    return reduction == "mean" ? loss.sum() / counted.sum().cast(loss.dtype()) : reduced(loss, reduction);
  });
}

Tensor Tensor::nll_loss(const Tensor& target, const std::optional<Tensor>& weight,
                        std::optional<int64_t> ignore_index, const std::string& reduction) const {
  check_reduction("nll_loss", reduction);
  detail::need_axes("nll_loss", *this, 1);
  detail::need_integers("nll_loss", "the targets", target);
  const int64_t axis = ndim() == 1 ? 0 : 1;
  check_classes("nll_loss", *this, axis, target, ignore_index);
  if (weight && (weight->ndim() != 1 || !detail::same_dims(weight->size(0), size(axis))))
    throw ShapeError(fmt::format("nll_loss: weight has shape {}, expected ({},)", shape_text(weight->shape()),
                                 size(axis).text()));
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    Tensor w = Tensor::ones(target.shape(), {.dtype = x.dtype()});
    if (weight) {
      Shape along(static_cast<size_t>(ndim()), Dim(1));
      along[static_cast<size_t>(axis)] = size(axis);
      w = of_class(detail::broadcast_to("nll_loss", weight->cast(x.dtype()).reshape(along), shape()), axis,
                   target);
    }
    if (ignore_index) w = target.cast(dtypes::int64).ne(*ignore_index).where(w, 0);
    const Tensor loss = w.eq(0).where(0, of_class(x, axis, target).neg() * w);
    return reduction == "mean" ? loss.sum() / w.sum() : reduced(loss, reduction);
  });
}

Tensor Tensor::binary_crossentropy(const Tensor& target, const std::string& reduction) const {
  check_reduction("binary_crossentropy", reduction);
  check_same_shape("binary_crossentropy", *this, target);
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    const Tensor y = target.cast(x.dtype());
    return reduced((y * x.log() + (1 - y) * (1 - x).log()).neg(), reduction);
  });
}

Tensor Tensor::binary_crossentropy_logits(const Tensor& target, const std::string& reduction,
                                          const std::optional<Tensor>& pos_weight) const {
  check_reduction("binary_crossentropy_logits", reduction);
  check_same_shape("binary_crossentropy_logits", *this, target);
  if (pos_weight) detail::check_broadcasts("binary_crossentropy_logits", "pos_weight", *pos_weight, shape());
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    const Tensor y = target.cast(x.dtype()), positive = pos_weight ? y * pos_weight->cast(x.dtype()) : y;
    return reduced((positive * x.logsigmoid() + (1 - y) * x.neg().logsigmoid()).neg(), reduction);
  });
}

// ---- Of numbers

namespace {
// The loss of each element from its difference, in a float that is wide enough.
Tensor of_differences(const char* who, const Tensor& given, const Tensor& target,
                      const std::string& reduction, const std::function<Tensor(const Tensor&)>& loss) {
  check_reduction(who, reduction);
  check_same_shape(who, given, target);
  const DType out = detail::to_float(given).dtype(),
              computed = promote(detail::sum_dtype(out), target.dtype());
  return reduced(loss(given.cast(computed) - target.cast(computed)), reduction)
      .cast(promote(out, target.dtype()));
}
}  // namespace

Tensor Tensor::mse_loss(const Tensor& target, const std::string& reduction) const {
  return of_differences("mse_loss", *this, target, reduction, [](const Tensor& d) { return d.square(); });
}
Tensor Tensor::l1_loss(const Tensor& target, const std::string& reduction) const {
  return of_differences("l1_loss", *this, target, reduction, [](const Tensor& d) { return d.abs(); });
}

// A parabola up to beta, then a line of slope 1.
Tensor Tensor::smooth_l1_loss(const Tensor& target, const std::string& reduction, double beta) const {
  if (!(beta >= 0)) throw ValueError(fmt::format("smooth_l1_loss: beta is {}; it must be 0 or more", beta));
  if (beta == 0)
    return of_differences("smooth_l1_loss", *this, target, reduction,
                          [](const Tensor& d) { return d.abs(); });
  return of_differences("smooth_l1_loss", *this, target, reduction, [&](const Tensor& d) {
    const Tensor size = d.abs();
    return size.lt(beta).where(d.square() * (0.5 / beta), size - 0.5 * beta);
  });
}

// The same times delta.
Tensor Tensor::huber_loss(const Tensor& target, const std::string& reduction, double delta) const {
  if (!(delta > 0)) throw ValueError(fmt::format("huber_loss: delta is {}; it must be positive", delta));
  return of_differences("huber_loss", *this, target, reduction, [&](const Tensor& d) {
    const Tensor size = d.abs();
    return size.lt(delta).where(d.square() * 0.5, (size - 0.5 * delta) * delta);
  });
}

Tensor Tensor::kl_div(const Tensor& target, const std::string& reduction, bool log_target) const {
  const bool by_batch = reduction == "batchmean";
  if (!by_batch) check_reduction("kl_div", reduction);
  if (by_batch) detail::need_axes("kl_div", *this, 1);
  check_same_shape("kl_div", *this, target);
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    const Tensor y = target.cast(x.dtype());
    const Tensor loss = log_target ? y.exp() * (y - x) : y.xlogy(y) - y * x;
    return by_batch ? loss.sum() / Tensor::from_dim(size(0), x.dtype()) : reduced(loss, reduction);
  });
}

}  // namespace quern
