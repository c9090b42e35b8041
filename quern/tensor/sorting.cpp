// Sorting. NaN is greater than every number, as in PyTorch and NumPy; equal elements keep their order.
#include <fmt/format.h>

#include "quern/tensor/support.h"

namespace quern {
namespace {

using detail::select;

// Short axes are sorted by counting, for each element, those that come before it; long ones by a bitonic
// network.
constexpr int64_t kCounted = 512;
constexpr int64_t kMostSorted = int64_t{1} << 30;  // places are numbered up to the next power of two

struct Sorted {
  Tensor values, places;
};

// Whether (a, at place i) comes before (b, at place j).
Tensor comes_before(const Tensor& a, const Tensor& i, const Tensor& b, const Tensor& j, bool descending) {
  Tensor less = descending ? a.gt(b) : a.lt(b), equal = a.eq(b);
  if (a.is_floating_point()) {
    const Tensor a_nan = a.isnan(), b_nan = b.isnan();
    less = less | (descending ? a_nan & b_nan.logical_not() : b_nan & a_nan.logical_not());
    equal = equal | (a_nan & b_nan);
  }
  return less | (equal & i.lt(j));
}

Sorted by_counting(const Tensor& x, bool descending) {
  const Tensor place = detail::iota(x.size(-1), dtypes::int32);
  const Tensor mine = x.unsqueeze(-1), other = x.unsqueeze(-2);
  const Tensor rank =
      comes_before(other, place, mine, place.unsqueeze(-1), descending).sum(-1, false, dtypes::int32);
  const Tensor hit = rank.unsqueeze(-2).eq(place.unsqueeze(-1));  // (..., result, element)
  auto moved = [&](const Tensor& v) {
    return detail::reduced("sort", hit.where(v.unsqueeze(-2), detail::number(0, v.dtype(), {})), Op::ADD, -1,
                           false);
  };
  return {moved(x), moved(detail::broadcast_to("sort", place, x.shape()))};
}

// A size as a number, or as a tensor of one where it is known later.
Operand as_operand(const Dim& n) {
  return n.is_symbolic() ? Operand(Tensor::from_dim(n, dtypes::int64)) : Operand(n.value());
}

// The halves [0, half) and [half, 2 half) of blocks along the last axis.
std::pair<Tensor, Tensor> halves(const Tensor& x, int64_t half, bool mirrored) {
  Shape shape = x.shape();
  const int64_t n = shape.back().value();
  shape.back() = n / (2 * half);
  shape.insert(shape.end(), {Dim(2), Dim(half)});
  const std::vector<Tensor> parts = x.reshape(shape).split(1, -2);
  return {parts[0], mirrored ? parts[1].flip(-1) : parts[1]};
}

Tensor joined(const Tensor& low, const Tensor& high, bool mirrored, const Shape& shape) {
  return Tensor::cat({low, mirrored ? high.flip(-1) : high}, -2).reshape(shape);
}

Sorted by_network(const Tensor& x, bool descending) {
  const Dim n = x.size(-1);
  const Operand count = as_operand(n);
  int64_t full = 1;
  while (full < n.max()) full *= 2;
  std::vector<std::pair<Dim, Dim>> padding(static_cast<size_t>(x.ndim()), {Dim(0), Dim(0)});
  padding.back().second = detail::difference(full, n);
  Tensor values = x.pad_axes(padding, 0);
  const Shape shape = values.shape();
  Tensor places =
      detail::broadcast_to("sort", detail::iota(full, dtypes::int64), shape);  // n and more: padding
  auto step = [&](int64_t half, bool mirrored) {
    const auto [a, b] = halves(values, half, mirrored);
    const auto [i, j] = halves(places, half, mirrored);
    const Tensor i_pad = i.ge(count), j_pad = j.ge(count);
    const Tensor by_value = comes_before(b, j, a, i, descending);
    const Tensor swap = (i_pad & j_pad.logical_not()) | (i_pad.eq(j_pad) & by_value);
    values = joined(select(swap, b, a), select(swap, a, b), mirrored, shape).contiguous();
    places = joined(select(swap, j, i), select(swap, i, j), mirrored, shape).contiguous();
  };
  for (int64_t block = 2; block <= full; block *= 2) {
    step(block / 2, true);  // two sorted runs, one of them backwards
    for (int64_t half = block / 4; half >= 1; half /= 2) step(half, false);
  }
  std::vector<std::optional<std::pair<Dim, Dim>>> bounds(shape.size());
  bounds.back() = {0, n};
  return {values.shrink(bounds), places.shrink(bounds)};
}

}  // namespace

std::pair<Tensor, Tensor> Tensor::sort(int64_t axis, bool descending) const {
  if (ndim() == 0 && (axis == 0 || axis == -1))
    return {detail::own_value(*this), zeros({}, {.dtype = default_int()})};
  const int64_t at = detail::resolve_axis("sort", axis, ndim()), n = size(at).max();
  if (n > kMostSorted)
    throw ShapeError(
        fmt::format("sort: axis {} of {} has more than 2^30 elements", axis, shape_text(shape())));
  if (n <= 1) return {detail::own_value(*this), zeros(shape(), {.dtype = default_int()})};
  const Tensor moved = transpose(at, -1);
  const Sorted s = n <= kCounted ? by_counting(moved, descending) : by_network(moved, descending);
  return {s.values.transpose(at, -1), s.places.transpose(at, -1).cast(detail::place_dtype(n))};
}

Tensor Tensor::argsort(int64_t axis, bool descending) const { return sort(axis, descending).second; }

std::pair<Tensor, Tensor> Tensor::topk(int64_t k, int64_t axis, bool largest, bool sorted) const {
  if (!sorted) throw ValueError("topk: only sorted=true is supported");
  const int64_t at = detail::resolve_axis("topk", axis, ndim());
  const Dim n = size(at);
  if (k < 0 || k > detail::value_now(n.uop()).value_or(n.max()))
    throw ValueError(fmt::format("topk: k is {}, axis {} has {} elements", k, at, n.text()));
  const auto [values, places] = sort(at, largest);
  std::vector<std::optional<std::pair<Dim, Dim>>> bounds(static_cast<size_t>(ndim()));
  bounds[static_cast<size_t>(at)] = {0, k};
  return {values.shrink(bounds), places.shrink(bounds)};
}

}  // namespace quern
