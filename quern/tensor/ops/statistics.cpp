// Norms, medians and quantiles, and sums that leave NaN out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quern/tensor/core/support.h"

namespace quern {

using detail::part;

namespace {

// The tensor as one axis, unless an axis is named; that axis stands last.
Tensor along_last(const char* who, const Tensor& x, std::optional<int64_t> axis) {
  if (!axis) return x.flatten();
  if (x.ndim() == 0) {
    (void)detail::resolve_axis(who, *axis, 1);
    return x.reshape({1});
  }
  return x.transpose(detail::resolve_axis(who, *axis, x.ndim()), -1);
}

// Of values along the last axis, of which there is one: with the axis of size 1 where it was, or without it.
Tensor put_back(const Tensor& x, const Tensor& given, std::optional<int64_t> axis, bool keepdim) {
  if (given.ndim() == 0) return x.reshape({});
  if (!axis) return keepdim ? x.reshape(Shape(static_cast<size_t>(given.ndim()), Dim(1))) : x.reshape({});
  const int64_t at = *axis < 0 ? *axis + given.ndim() : *axis;
  const Tensor kept = x.transpose(at, -1);
  return keepdim ? kept : kept.squeeze(at);
}

int64_t elements_along(const char* who, const Tensor& x) {
  const int64_t n = detail::int_size(who, x, -1);
  if (n == 0) throw ShapeError(fmt::format("{}: there are no elements along the axis", who));
  return n;
}

// The element at a place of the sorted axis; NaN where there is a NaN, which is the greatest.
std::pair<Tensor, Tensor> element_at(const Tensor& x, int64_t place, bool nan_wins) {
  const auto [values, places] = x.sort(-1);
  const int64_t last = x.size(-1).value() - 1;
  const Tensor value = part(values, -1, place, place + 1), index = part(places, -1, place, place + 1);
  if (!nan_wins || !x.is_floating_point()) return {value, index};
  const Tensor greatest = part(values, -1, last, last + 1), is_nan = greatest.isnan();
  const Tensor first_nan = x.isnan().cast(dtypes::int32).argmax(-1, true);
  return {detail::if_else(is_nan, greatest, value), detail::if_else(is_nan, first_nan, index)};
}

}  // namespace

std::pair<Tensor, Tensor> Tensor::aminmax(std::optional<int64_t> axis, bool keepdim) const {
  const Axes axes = axis ? Axes(*axis) : Axes();
  return {min(axes, keepdim), max(axes, keepdim)};
}

Tensor Tensor::norm(double p, const Axes& axes, bool keepdim) const {
  if (std::isnan(p)) throw ValueError("norm: p is NaN; it must be a number");
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    if (p == 0) return x.ne(0).sum(axes, keepdim, x.dtype());
    const Tensor size = x.abs();
    if (std::isinf(p)) return p > 0 ? size.max(axes, keepdim) : size.min(axes, keepdim);
    if (p == 1) return size.sum(axes, keepdim);
    if (p == 2) return detail::root(x.square().sum(axes, keepdim));
    // |x|^p has no slope at 0 unless p is above 1: there it is given the slope 0.
    const Tensor zero = size.eq(0), power = detail::if_else(zero, detail::like(x, 1), size).pow(p);
    const Tensor total =
        detail::if_else(zero, detail::like(x, p > 0 ? 0 : INFINITY), power).sum(axes, keepdim);
    return p > 0 ? detail::root(total, 1 / p) : total.pow(1 / p);
  });
}

Tensor Tensor::nansum(const Axes& axes, bool keepdim) const {
  return is_floating_point() ? isnan().where(0, *this).sum(axes, keepdim) : sum(axes, keepdim);
}

Tensor Tensor::nanmean(const Axes& axes, bool keepdim) const {
  if (!is_floating_point()) return mean(axes, keepdim);
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    const Tensor counted = x.isnan().logical_not();
    return counted.where(x, 0).sum(axes, keepdim) / counted.sum(axes, keepdim, x.dtype());
  });
}

Tensor Tensor::count_nonzero(const Axes& axes) const {
  (void)detail::resolve_axes("count_nonzero", axes, ndim());
  return cast(dtypes::bool_).sum(axes, false, default_int());
}

Tensor Tensor::median() const {
  const Tensor x = along_last("median", *this, {});
  return put_back(element_at(x, (elements_along("median", x) - 1) / 2, true).first, *this, {}, false);
}
std::pair<Tensor, Tensor> Tensor::median(int64_t axis, bool keepdim) const {
  const Tensor x = along_last("median", *this, axis);
  const auto [value, index] = element_at(x, (elements_along("median", x) - 1) / 2, true);
  return {put_back(value, *this, axis, keepdim), put_back(index, *this, axis, keepdim)};
}

std::pair<Tensor, Tensor> Tensor::kthvalue(int64_t k, int64_t axis, bool keepdim) const {
  const Tensor x = along_last("kthvalue", *this, axis);
  const int64_t n = elements_along("kthvalue", x);
  if (k < 1 || k > n) throw ValueError(fmt::format("kthvalue: k is {}, expected 1 to {}", k, n));
  const auto [value, index] = element_at(x, k - 1, false);
  return {put_back(value, *this, axis, keepdim), put_back(index, *this, axis, keepdim)};
}

Tensor Tensor::quantile(const Operand& q, std::optional<int64_t> axis, bool keepdim) const {
  if (!is_floating_point())
    throw DTypeError(fmt::format("quantile: needs floats, given {}", detail::text(*this)));
  const Tensor x = along_last("quantile", *this, axis);
  const int64_t n = elements_along("quantile", x);
  const Tensor sorted = x.sort(-1).first, greatest = part(sorted, -1, n - 1, n);
  // A NaN is last in order, and makes all quantiles NaN.
  auto between = [&](const Tensor& low, const Tensor& high, const Operand& weight) {
    return detail::if_else(greatest.isnan().expand(low.shape()), greatest.expand(low.shape()),
                           low.lerp(high, weight));
  };
  if (!q.is_tensor()) {
    const double number = q.constant(dtypes::float64).value().as_float();
    if (!(number >= 0 && number <= 1))
      throw ValueError(fmt::format("quantile: q is {}, expected 0 to 1", number));
    const double place = number * static_cast<double>(n - 1);
    const auto low = static_cast<int64_t>(std::floor(place));
    const int64_t high = std::min(low + 1, n - 1);
    return put_back(between(part(sorted, -1, low, low + 1), part(sorted, -1, high, high + 1),
                            place - static_cast<double>(low)),
                    *this, axis, keepdim);
  }
  const Tensor& numbers = q.tensor();
  if (!numbers.is_floating_point() || numbers.ndim() > 1)
    throw DTypeError(
        fmt::format("quantile: q is {}, expected a number, or floats along one axis", detail::text(numbers)));
  const Tensor place = numbers.reshape({-1}).cast(dtypes::float64) * static_cast<double>(n - 1);
  const Tensor low = place.floor(), high = (low + 1).minimum(static_cast<double>(n - 1));
  const Tensor values =
      between(sorted.index_select(-1, low.cast(dtypes::int64)),
              sorted.index_select(-1, high.cast(dtypes::int64)), (place - low).cast(dtype()));
  if (numbers.ndim() == 0) return put_back(values, *this, axis, keepdim);
  std::vector<Tensor> each;
  for (const Tensor& one : values.split(1, -1)) each.push_back(put_back(one, *this, axis, keepdim));
  return stack(each);
}

Tensor Tensor::diff(int64_t n, int64_t axis) const {
  if (n < 0) throw ValueError(fmt::format("diff: n is {}; it must be 0 or more", n));
  detail::need_axes("diff", *this, 1);
  const int64_t at = detail::resolve_axis("diff", axis, ndim());
  Tensor x = detail::own_value(*this);
  for (int64_t i = 0; i < n; i++) {
    const int64_t count = detail::int_size("diff", x, at);
    if (count == 0) break;
    const Tensor above = part(x, at, 1, count), below = part(x, at, 0, count - 1);
    x = x.dtype().is_bool() ? above.ne(below) : above - below;
  }
  return x;
}

}  // namespace quern
