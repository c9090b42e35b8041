// Sorting. NaN is greater than every number, as in PyTorch and NumPy; equal elements keep their order.
#include <fmt/format.h>

#include <algorithm>

#include "quern/tensor/core/size_conditions.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/indexing/sort_kernel.h"

namespace quern {
namespace {

using detail::if_else;

// Very short axes are sorted by counting, for each element, those that come before it; others digit by digit
// (sort_kernel.h). What no kernel can be made for, longer axes of it by a bitonic network.
constexpr int64_t kFewest = 32, kCounted = 512;
constexpr int64_t kSelected = 4;  // a fourth is selected, then sorted; more than that is all sorted
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
  const Tensor rank = comes_before(other, place, mine, place.unsqueeze(-1), descending)
                          .sum(-1, false, dtypes::int32)
                          .contiguous();
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
    values = joined(if_else(swap, b, a), if_else(swap, a, b), mirrored, shape).contiguous();
    places = joined(if_else(swap, j, i), if_else(swap, i, j), mirrored, shape).contiguous();
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
  if (detail::can_run_loops(*this) && detail::has_elements(*this)) {
    const Tensor places =
        n > kFewest
            ? detail::sorted_places(detail::sort_keys(moved.detach(), descending), detail::place_dtype(n))
            : by_counting(moved.detach(), descending).places.cast(detail::place_dtype(n));
    return {detail::picked(moved, places).transpose(at, -1), places.transpose(at, -1)};
  }
  const Sorted s = n <= kCounted ? by_counting(moved, descending) : by_network(moved, descending);
  return {s.values.transpose(at, -1), s.places.transpose(at, -1).cast(detail::place_dtype(n))};
}

Tensor Tensor::argsort(int64_t axis, bool descending) const { return sort(axis, descending).second; }

std::pair<Tensor, Tensor> Tensor::topk(int64_t k, int64_t axis, bool largest, bool sorted) const {
  if (!sorted) throw ValueError("topk: only sorted=true is supported");
  const int64_t at = detail::resolve_axis("topk", axis, ndim());
  const Dim n = size(at);
  const auto text = [&] { return fmt::format("topk: k is {}, axis {} has {} elements", k, at, n.text()); };
  if (k < 0 || k > detail::value_now(n.uop()).value_or(n.max())) throw ValueError(text());
  detail::note_not_negative(n.uop() - k, text);
  if (const int64_t most = n.max(); k > 0 && most > kFewest && most / k >= kSelected && most <= kMostSorted &&
                                    detail::can_run_loops(*this) && detail::has_elements(*this)) {
    const Tensor moved = transpose(at, -1);
    const DType index = detail::place_dtype(n);
    const Tensor x = detail::in_order("topk", moved);
    const Tensor some = detail::least_places(x, largest, k, index);  // of equal ones the first is first
    const Tensor found = detail::picked(x, some).detach();
    const Tensor order = detail::sorted_places(detail::sort_keys(found, largest), index);
    const Tensor places = detail::picked(some, order);
    return {detail::picked(x, places).transpose(at, -1), places.transpose(at, -1)};
  }
  const auto [values, places] = sort(at, largest);
  std::vector<std::optional<std::pair<Dim, Dim>>> bounds(static_cast<size_t>(ndim()));
  bounds[static_cast<size_t>(at)] = {0, k};
  return {values.shrink(bounds), places.shrink(bounds)};
}

namespace {
void need_whole(const char* who, const Tensor& x) {
  (void)detail::int_shape(who, x);
  if (!detail::can_run_loops(x))
    throw DeviceError(fmt::format("{}: a tensor of shape {} is sharded; gather it first with to()", who,
                                  shape_text(x.shape())));
}
}  // namespace

Tensor::Unique Tensor::unique() const {
  need_whole("unique", *this);
  const DType index = default_int();
  const Tensor x = detach().flatten();
  const int64_t n = x.size(0).value();
  if (n > kMostSorted)
    throw ShapeError(fmt::format("unique: {} has more than 2^30 elements", shape_text(shape())));
  if (n == 0) return {x, zeros(shape(), {.dtype = index}), zeros({0}, {.dtype = index})};
  const detail::SortKeys keys = detail::sort_keys(x, false);
  const Tensor places = detail::sorted_places(keys, index), sorted = detail::picked(keys.keys, places);
  const Tensor begins = cat({ones({1}, {.dtype = dtypes::bool_}),
                             detail::part(sorted, 0, 1, n).ne(detail::part(sorted, 0, 0, n - 1))})
                            .contiguous();
  const auto count = begins.sum({}, false, dtypes::int64).item<int64_t>();
  const Tensor first = detail::true_places(begins, count, index);
  const Tensor run = begins.cast(index).cumsum(0) - 1;
  const Tensor ends = cat({detail::part(first, 0, 1, count), full({1}, n, {.dtype = index})});
  return {detail::picked(x, detail::picked(places, first)),
          detail::put_back(run.cast(index), places, n).reshape(shape()), ends - first};
}

Tensor Tensor::searchsorted(const Tensor& values, bool right) const {
  detail::need_axes("searchsorted", *this, 1);
  need_whole("searchsorted", *this);
  need_whole("searchsorted", values);
  const DType index = detail::place_dtype(numel()), dtype = detail::common_dtype(*this, values);
  const Tensor x = detach().cast(dtype);
  Tensor wanted = values.detach().cast(dtype);
  bool alike = ndim() == 1 || ndim() == values.ndim();
  for (int64_t a = 0; alike && a + 1 < ndim(); a++) alike = size(a) == values.size(a);
  if (!alike)
    throw ShapeError(
        fmt::format("searchsorted: values of shape {} in {}: all axes but the last must be alike, or "
                    "there must be one axis to search in",
                    shape_text(values.shape()), shape_text(shape())));
  if (size(-1) == Dim(0) || !detail::has_elements(values)) return zeros(values.shape(), {.dtype = index});
  if (ndim() == 1) wanted = wanted.flatten();
  return detail::places_in_sorted(x, wanted, right, index).reshape(values.shape());
}

}  // namespace quern
