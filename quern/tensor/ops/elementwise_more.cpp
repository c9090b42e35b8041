// Functions of each element that are made of others.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "quern/tensor/core/support.h"

namespace quern {

using detail::in_wide_float, detail::like, detail::if_else;

namespace {

std::pair<Tensor, Tensor> as_bools(const char* who, const Tensor& x, const Operand& other) {
  const Tensor a = x.cast(dtypes::bool_);
  if (other.is_tensor()) return detail::matched(who, a, other.tensor().cast(dtypes::bool_));
  return detail::matched(who, a, other.constant(dtypes::float64).value().as_float() != 0);
}

void need_floats(const char* who, const Tensor& x) {
  if (!x.is_floating_point())
    throw DTypeError(fmt::format("{}: needs floats, given {}", who, detail::text(x)));
}
void check_lambda(const char* who, double lambda) {
  if (!(lambda >= 0)) throw ValueError(fmt::format("{}: lambda is {}; it must be 0 or more", who, lambda));
}

}  // namespace

Tensor Tensor::logical_and(const Operand& other) const {
  const auto [a, b] = as_bools("logical_and", *this, other);
  return a & b;
}
Tensor Tensor::logical_or(const Operand& other) const {
  const auto [a, b] = as_bools("logical_or", *this, other);
  return a | b;
}
Tensor Tensor::logical_xor(const Operand& other) const {
  const auto [a, b] = as_bools("logical_xor", *this, other);
  return a ^ b;
}

// What is not taken sees a 1, so that its gradient is a number.
Tensor Tensor::xlogy(const Operand& other) const {
  const auto [a, b] = detail::matched("xlogy", *this, other);
  const Tensor x = detail::to_float(a), y = detail::to_float(b);
  const Tensor none = x.eq(0) & y.isnan().logical_not();
  return if_else(none, like(x, 0), x * if_else(none, like(y, 1), y).log());
}

Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, double value) const {
  return *this + (value == 1 ? a * b : a * b * value);
}
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, double value) const {
  return *this + (value == 1 ? a / b : a / b * value);
}

Tensor Tensor::deg2rad() const {
  return in_wide_float(*this, [](const Tensor& x) { return x * (std::numbers::pi / 180); });
}
Tensor Tensor::rad2deg() const {
  return in_wide_float(*this, [](const Tensor& x) { return x * (180 / std::numbers::pi); });
}
Tensor Tensor::frac() const {
  need_floats("frac", *this);
  return *this - trunc();
}
Tensor Tensor::signbit() const {
  if (!is_floating_point()) return dtype().is_bool() ? full(shape(), false) : lt(0);
  return like(*this, 1).copysign(*this).lt(0);
}

Tensor Tensor::nan_to_num(double nan, std::optional<double> posinf, std::optional<double> neginf) const {
  if (!is_floating_point()) return detail::own_value(*this);
  const double top = max_finite(dtype());
  const Tensor numbers = if_else(isnan(), like(*this, nan), *this);
  const Tensor infinite = isinf();
  return if_else(infinite & gt(0), like(*this, posinf.value_or(top)),
                 if_else(infinite & lt(0), like(*this, neginf.value_or(-top)), numbers));
}

Tensor Tensor::logit(std::optional<double> eps) const {
  if (eps && !(*eps >= 0 && *eps <= 0.5))
    throw ValueError(fmt::format("logit: eps is {}, expected 0 to 0.5", *eps));
  return in_wide_float(*this, [&](const Tensor& given) {
    const Tensor x = eps ? given.clamp(*eps, 1 - *eps) : given;
    return (x / (1 - x)).log();
  });
}

Tensor Tensor::hardshrink(double lambda) const {
  check_lambda("hardshrink", lambda);
  return if_else(abs().le(lambda), like(*this, 0), *this);
}
Tensor Tensor::softshrink(double lambda) const {
  check_lambda("softshrink", lambda);
  return if_else(gt(lambda), *this - lambda, if_else(lt(-lambda), *this + lambda, like(*this, 0)));
}
Tensor Tensor::tanhshrink() const {
  return in_wide_float(*this, [](const Tensor& x) { return x - x.tanh(); });
}
Tensor Tensor::threshold(double threshold, double value) const {
  return le(threshold).where(value, *this).cast(dtype());
}

Tensor Tensor::prelu(const Tensor& weight) const {
  need_floats("prelu", *this);
  const int64_t axis = ndim() > 1 ? 1 : 0;
  if (weight.ndim() > 1 ||
      (weight.numel() != Dim(1) && (ndim() == 0 || !detail::same_dims(weight.numel(), size(axis)))))
    throw ShapeError(fmt::format("prelu: the weight has shape {}, expected (1,){}",
                                 shape_text(weight.shape()),
                                 ndim() == 0 ? "" : fmt::format(" or ({},)", size(axis).text())));
  Shape along(static_cast<size_t>(ndim()), Dim(1));
  if (weight.numel() != Dim(1)) along[static_cast<size_t>(axis)] = size(axis);
  return gt(0).where(*this, *this * weight.cast(dtype()).reshape(along));
}

Tensor Tensor::glu(int64_t axis) const {
  detail::need_axes("glu", *this, 1);
  const int64_t at = detail::resolve_axis("glu", axis, ndim()), n = detail::int_size("glu", *this, at);
  if (n % 2 != 0)
    throw ShapeError(fmt::format("glu: axis {} of {} has {} elements, expected an even number", axis,
                                 shape_text(shape()), n));
  return detail::part(*this, at, 0, n / 2) * detail::part(*this, at, n / 2, n).sigmoid();
}

}  // namespace quern
