// Reductions over axes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/support.h"

namespace quern {

using detail::in_wide_float, detail::like, detail::root, detail::resolve_axes, detail::resolve_axis,
    detail::sum_dtype;

namespace detail {

// The axes of a reduce. A tensor of no axes is reduced over its first or last as if it had one.
Ints reduced_axes(const char* who, const Axes& axes, int64_t count) {
  const bool of_scalar = count == 0 && axes.given() && axes.values().size() == 1;
  if (of_scalar && (axes.values()[0] == 0 || axes.values()[0] == -1)) return {};
  return resolve_axes(who, axes, count);
}

Tensor reduced(const char* who, const Tensor& x, Op op, const Axes& axes, bool keepdim) {
  const Ints over = reduced_axes(who, axes, x.ndim());
  Tensor kept(quern::reduce(x.uop(), op, over));
  if (keepdim) return own_value(kept, x);
  Shape sizes;
  const Shape all = kept.shape();
  for (size_t i = 0; i < all.size(); i++)
    if (!std::ranges::binary_search(over, static_cast<int64_t>(i))) sizes.push_back(all[i]);
  return own_value(kept.reshape(sizes), x);
}

Tensor root(const Tensor& x, double power) {
  const Tensor zero = x.eq(0), inner = if_else(zero, like(x, 1), x);
  return if_else(zero, like(x, 0), power == 0.5 ? inner.sqrt() : inner.pow(power));
}

}  // namespace detail

namespace {

// Sums and products: computed in a type that is wide enough; floats come back in their own.
Tensor accumulated(const char* who, const Tensor& x, Op op, const Axes& axes, bool keepdim,
                   std::optional<DType> dtype) {
  if (dtype) return detail::reduced(who, x.cast(*dtype), op, axes, keepdim);
  const Tensor result = detail::reduced(who, x.cast(sum_dtype(x.dtype())), op, axes, keepdim);
  return x.is_floating_point() ? result.cast(x.dtype()) : result;
}

Tensor extreme(const char* who, const Tensor& x, Op op, const Axes& axes, bool keepdim) {
  for (const int64_t axis : detail::reduced_axes(who, axes, x.ndim()))
    if (x.size(axis) == Dim(0))
      throw ShapeError(
          fmt::format("{}: axis {} of {} is empty: there is no value", who, axis, shape_text(x.shape())));
  return detail::reduced(who, x, op, axes, keepdim);
}

// How many elements go into one result.
Dim reduced_count(const char* who, const Tensor& x, const Axes& axes) {
  Dim n = 1;
  for (const int64_t axis : detail::reduced_axes(who, axes, x.ndim())) n = detail::product(n, x.size(axis));
  return n;
}

// x / n, for a size n.
Tensor divided(const Tensor& x, const Dim& n) {
  if (!n.is_symbolic()) return x / static_cast<double>(n.value());
  return x / Tensor::from_dim(n, x.dtype());
}

// The first of the elements that go into each result; 0 where there may be none, or devices have parts of
// them.
Tensor first_of(const char* who, const Tensor& x, const Axes& axes) {
  std::vector<std::optional<std::pair<Dim, Dim>>> bounds(static_cast<size_t>(x.ndim()));
  for (const int64_t axis : detail::reduced_axes(who, axes, x.ndim())) {
    if (x.size(axis).uop().vmin() < 1 || x.devices().size() > 1) return detail::number(0, x.dtype(), {});
    bounds[static_cast<size_t>(axis)] = {Dim(0), Dim(1)};
  }
  return x.shrink(bounds);
}

// The place of the first element that equals the extreme, or is NaN.
Tensor index_of_extreme(const char* who, const Tensor& x, Op op, std::optional<int64_t> axis, bool keepdim) {
  if (!axis || (x.ndim() == 0 && detail::reduced_axes(who, *axis, 0).empty())) {
    const Tensor place = index_of_extreme(who, x.flatten(), op, 0, false);
    return keepdim ? place.reshape(Shape(static_cast<size_t>(x.ndim()), Dim(1))) : place;
  }
  const int64_t at = resolve_axis(who, *axis, x.ndim());
  const Tensor best = extreme(who, x, op, at, true);
  const Tensor hit = x.is_floating_point() ? x.eq(best) | x.isnan() : x.eq(best);
  const DType dtype = x.size(at).max() < (int64_t{1} << 31) ? dtypes::int32 : dtypes::int64;
  const Tensor place = detail::positions(x, at, dtype);
  const Tensor last = detail::number(x.size(at).max(), dtype, {});
  return detail::reduced(who, hit.where(place, last), Op::MIN, at, keepdim)
      .cast(detail::place_dtype(x.size(at)));
}

}  // namespace

Tensor Tensor::sum(const Axes& axes, bool keepdim, std::optional<DType> dtype) const {
  return accumulated("sum", *this, Op::ADD, axes, keepdim, dtype);
}
Tensor Tensor::prod(const Axes& axes, bool keepdim, std::optional<DType> dtype) const {
  return accumulated("prod", *this, Op::MUL, axes, keepdim, dtype);
}
Tensor Tensor::max(const Axes& axes, bool keepdim) const {
  return extreme("max", *this, Op::MAX, axes, keepdim);
}
Tensor Tensor::min(const Axes& axes, bool keepdim) const {
  return extreme("min", *this, Op::MIN, axes, keepdim);
}
Tensor Tensor::any(const Axes& axes, bool keepdim) const {
  return detail::reduced("any", cast(dtypes::bool_), Op::MAX, axes, keepdim);
}
Tensor Tensor::all(const Axes& axes, bool keepdim) const {
  return detail::reduced("all", cast(dtypes::bool_), Op::MIN, axes, keepdim);
}

Tensor Tensor::mean(const Axes& axes, bool keepdim) const {
  const Dim n = reduced_count("mean", *this, axes);
  const DType out = is_floating_point() ? dtype() : default_float();
  const Tensor total = is_floating_point()
                           ? sum(axes, keepdim, sum_dtype(dtype()))
                           : sum(axes, keepdim, dtype() == dtypes::uint64 ? dtypes::uint64 : dtypes::int64)
                                 .cast(sum_dtype(out));
  return divided(total, n).cast(out);
}

// ---- Variances. Differences to one of the values are small where all are alike, and then their mean loses
// little by rounding. The variance alone is that of the differences; beside the mean it is about the mean
// that is shown, so that who needs both computes x - mean once.

namespace {
Tensor variance(const Tensor& x, const Tensor& mean, const Axes& axes, bool keepdim, double correction) {
  const Dim n = reduced_count("var", x, axes);
  const Tensor degrees = n.is_symbolic()
                             ? (Tensor::from_dim(n, x.dtype()) - correction).maximum(0)
                             : Tensor::full({}, std::max(static_cast<double>(n.value()) - correction, 0.0),
                                            {.dtype = x.dtype()});
  return (x - mean).square().sum(axes, keepdim) / degrees;
}
}  // namespace

std::pair<Tensor, Tensor> Tensor::var_mean(const Axes& axes, bool keepdim, double correction) const {
  const DType out = is_floating_point() ? dtype() : default_float();
  const Tensor x = cast(sum_dtype(out)), first = first_of("var", x, axes).detach();
  const Tensor mean = first + (x - first).mean(axes, true);
  const Tensor var = variance(x, mean, axes, keepdim, correction);
  return {var.cast(out), (keepdim ? mean : mean.reshape(var.shape())).cast(out)};
}
Tensor Tensor::var(const Axes& axes, bool keepdim, double correction) const {
  const DType out = is_floating_point() ? dtype() : default_float();
  const Tensor wide = cast(sum_dtype(out)), x = wide - first_of("var", wide, axes).detach();
  return variance(x, x.mean(axes, true), axes, keepdim, correction).cast(out);
}
Tensor Tensor::std(const Axes& axes, bool keepdim, double correction) const {
  return in_wide_float(*this, [&](const Tensor& x) { return root(x.var(axes, keepdim, correction)); });
}
std::pair<Tensor, Tensor> Tensor::std_mean(const Axes& axes, bool keepdim, double correction) const {
  return {std(axes, keepdim, correction), mean(axes, keepdim)};
}

Tensor Tensor::argmax(std::optional<int64_t> axis, bool keepdim) const {
  return index_of_extreme("argmax", *this, Op::MAX, axis, keepdim);
}
Tensor Tensor::argmin(std::optional<int64_t> axis, bool keepdim) const {
  return index_of_extreme("argmin", *this, Op::MIN, axis, keepdim);
}

// ---- Exponentials. The greatest is taken off first, so that nothing overflows; no gradient goes through it,
// because the result does not depend on it. exp(x) is EXP2(x * log2(e)) here, without what Tensor::exp does
// about the rounding of that product: x is not positive, and where it is far from 0 the result is so small
// that the rounding does not show.

namespace {
Tensor bare_exp(const Tensor& x) { return detail::apply(Op::EXP2, x * std::numbers::log2e); }
}  // namespace

Tensor Tensor::softmax(int64_t axis, std::optional<DType> dtype) const {
  if (dtype && !dtype->is_float())
    throw DTypeError(fmt::format("softmax: {} is not a float type", dtype->name()));
  const int64_t at = ndim() == 0 ? -1 : resolve_axis("softmax", axis, ndim());
  if (at < 0) return ones_like({.dtype = dtype.value_or(detail::to_float(*this).dtype())});
  return in_wide_float(dtype ? cast(*dtype) : *this, [&](const Tensor& x) {
    if (x.size(at) == Dim(0)) return x;
    const Tensor e = bare_exp(x - x.max(at, true).detach());
    return e * e.sum(at, true).reciprocal();  // one division a row
  });
}
Tensor Tensor::softmin(int64_t axis, std::optional<DType> dtype) const {
  return detail::to_float(*this).neg().softmax(axis, dtype);
}

Tensor Tensor::log_softmax(int64_t axis, std::optional<DType> dtype) const {
  if (dtype && !dtype->is_float())
    throw DTypeError(fmt::format("log_softmax: {} is not a float type", dtype->name()));
  if (ndim() == 0) return detail::to_float(*this) * 0;
  const int64_t at = resolve_axis("log_softmax", axis, ndim());
  return in_wide_float(dtype ? cast(*dtype) : *this, [&](const Tensor& x) {
    if (x.size(at) == Dim(0)) return x;
    const Tensor shifted = x - x.max(at, true).detach();
    return shifted - bare_exp(shifted).sum(at, true).log();
  });
}

Tensor Tensor::logsumexp(const Axes& axes, bool keepdim) const {
  return in_wide_float(*this, [&](const Tensor& x) {
    if (reduced_count("logsumexp", x, axes) == Dim(0)) return x.sum(axes, keepdim).log();
    const Tensor greatest = extreme("logsumexp", x, Op::MAX, axes, true).detach();
    const Tensor base = greatest.isfinite().where(greatest, 0);  // an infinite one stays in the sum
    const Tensor sum = bare_exp(x - base).sum(axes, keepdim);
    return sum.log() + base.reshape(sum.shape());
  });
}

Tensor Tensor::normalize(double p, int64_t axis, double eps) const {
  if (!(p > 0)) throw ValueError(fmt::format("normalize: p is {}; it must be positive", p));
  detail::resolve_axes("normalize", axis, ndim());
  return in_wide_float(*this, [&](const Tensor& x) {
    const Tensor size = x.abs();
    Tensor norm = p == 1          ? size.sum(axis, true)
                  : p == 2        ? root(size.square().sum(axis, true))
                  : std::isinf(p) ? size.max(axis, true)
                                  : root(size.pow(p).sum(axis, true), 1 / p);
    return x / norm.maximum(eps);
  });
}

}  // namespace quern
