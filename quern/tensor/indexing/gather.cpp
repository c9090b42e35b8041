// Gather: as sums over all places of which at most one counts, which the scheduler turns into loads.
#include "quern/tensor/indexing/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/function.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/indexing/places.h"
#include "quern/tensor/indexing/sort_kernel.h"

namespace quern {
namespace detail {
namespace {

Ints moved_to_end(int64_t axes, int64_t axis) {
  Ints order;
  for (int64_t a = 0; a < axes; a++)
    if (a != axis) order.push_back(a);
  order.push_back(axis);
  return order;
}

}  // namespace

void check_index(const char* who, const Tensor& x, int64_t axis, const Tensor& index) {
  detail::need_integers(who, "the indices", index);
  if (index.ndim() != x.ndim())
    throw ShapeError(fmt::format("{}: the indices have shape {}, the tensor {}: as many axes are needed", who,
                                 shape_text(index.shape()), shape_text(x.shape())));
  for (int64_t a = 0; a < x.ndim(); a++)
    if (a != axis && index.size(a).uop().vmin() > x.size(a).uop().vmax())
      throw ShapeError(fmt::format("{}: axis {} of the indices {} is longer than that of the tensor {}", who,
                                   a, shape_text(index.shape()), shape_text(x.shape())));
}

// x cut to the sizes of `shape`, but for one axis.
Tensor cut(const Tensor& x, const Shape& shape, int64_t but) {
  std::vector<std::optional<Dim>> sizes(shape.begin(), shape.end());
  if (but >= 0) sizes[static_cast<size_t>(but)] = std::nullopt;
  return x.shrink_to(sizes);
}

Tensor one_index(const Tensor& x, const std::vector<std::pair<int64_t, Tensor>>& indices) {
  if (indices.size() == 1) return indices[0].second;
  std::vector<Tensor> tensors;
  for (const auto& [axis, t] : indices) tensors.push_back(t);
  check_same_device("index", tensors);
  const Shape shape = broadcast_shape("index", tensors);
  std::optional<Tensor> place, inside;
  for (const auto& [axis, t] : indices) {
    const Tensor index = broadcast_to("index", wrapped(t, x.size(axis)), shape);
    const Tensor length = Tensor::from_dim(x.size(axis), dtypes::int64),
                 valid = index.ge(0) & index.lt(length);
    place = place ? *place * length + index : index;
    inside = inside ? *inside & valid : valid;
  }
  return inside->where(*place, std::numeric_limits<int64_t>::min());  // not counted from the end either
}

namespace {

Tensor gathered(const Tensor& x, const std::vector<std::pair<int64_t, Tensor>>& indices) {
  std::vector<Tensor> tensors;
  Ints order;
  for (const auto& [axis, t] : indices) {
    tensors.push_back(t);
    order.push_back(axis);
  }
  const Shape shape = broadcast_shape("index", tensors);
  const int64_t first = order.front();
  const bool neighbours = order.back() - first + 1 == std::ssize(order);
  for (int64_t a = 0; a < x.ndim(); a++)
    if (!std::ranges::count(order, a)) order.push_back(a);
  // (indices..., indexed axes..., kept axes...): an index that is out of range equals no place.
  const Tensor sorted = x.permute(order);
  const Shape all = sorted.shape();
  const auto axis = static_cast<int64_t>(shape.size()), count = std::ssize(tensors);
  std::optional<Tensor> hit;
  Ints indexed;
  Dim places = 1;
  for (int64_t i = 0; i < count; i++) {
    const Dim size = all[static_cast<size_t>(i)];
    Shape spread = shape, counted(static_cast<size_t>(x.ndim()), Dim(1));
    spread.resize(shape.size() + all.size(), Dim(1));
    counted[static_cast<size_t>(i)] = size;
    const auto at = static_cast<size_t>(i);
    const Tensor index = broadcast_to("index", wrapped(tensors[at], size), shape).reshape(spread);
    const Tensor here = index.eq(iota(size, dtypes::int64).reshape(counted));
    hit = hit ? *hit & here : here;
    indexed.push_back(axis + i);
    places = product(places, size);
  }
  const Tensor found =
      reduced("index", hit->where(sorted, number(0, x.dtype(), {})), Op::ADD, indexed, false);
  const Shape kept(all.begin() + count, all.end());
  Shape flat{places};
  flat.insert(flat.end(), kept.begin(), kept.end());
  const bool in_front = !neighbours || first == 0;
  const PlacesOf of = in_front ? PlacesOf{1, places, product_of(kept)} : places_of_axes(x, first, count);
  auto marked = [&](const Tensor& y) {
    return as_picked(y, in_front ? sorted.reshape(flat) : x, of,
                     one_index(x, indices).reshape({1, product_of(shape), 1}));
  };
  if (in_front) return marked(found);
  Ints back;  // the kept axes in front of the indexed ones go first
  for (int64_t a = 0; a < first; a++) back.push_back(axis + a);
  for (int64_t a = 0; a < axis; a++) back.push_back(a);
  for (int64_t a = axis + first; a < found.ndim(); a++) back.push_back(a);
  return marked(found.permute(back));
}

// Along one axis, with an index for each element of the others.
Tensor gathered_along(const Tensor& given, int64_t at, const Tensor& index) {
  const Ints order = moved_to_end(given.ndim(), at);
  const Dim size = given.size(at);
  const Tensor x = cut(given, index.shape(), at);
  const Tensor values = x.permute(order).unsqueeze(-2);                     // (others, 1, n)
  const Tensor places = wrapped(index, size).permute(order).unsqueeze(-1);  // (others, m, 1)
  const Tensor hit = places.eq(iota(size, dtypes::int64));
  const Tensor found = reduced("gather", hit.where(values, number(0, x.dtype(), {})), Op::ADD, -1, false);
  const PlacesOf of = places_of_axes(x, at, 1);
  return as_picked(found.permute(inverse_order(order)), x, of,
                   index.reshape({of.outer, index.size(at), of.inner}));
}

}  // namespace

Tensor gather_axes(const Tensor& x, const std::vector<std::pair<int64_t, Tensor>>& indices) {
  std::vector<Tensor> all{x};
  Ints axes;
  for (const auto& [axis, index] : indices) {
    all.push_back(index);
    axes.push_back(axis);
  }
  check_same_device("index", {all.begin() + 1, all.end()});
  return call_of_body("index", axes, all, [&](const std::vector<Tensor>& inputs) {
    std::vector<std::pair<int64_t, Tensor>> its;
    for (size_t i = 0; i < axes.size(); i++) its.emplace_back(axes[i], inputs[i + 1]);
    return gathered(inputs[0], its);
  });
}

}  // namespace detail

Tensor Tensor::gather(int64_t axis, const Tensor& index) const {
  const int64_t at = detail::resolve_axis("gather", axis, ndim());
  detail::check_index("gather", *this, at, index);
  return detail::call_of_body("gather", {at}, {*this, index}, [&](const std::vector<Tensor>& inputs) {
    return detail::gathered_along(inputs[0], at, inputs[1]);
  });
}

Tensor Tensor::index_select(int64_t axis, const Tensor& index) const {
  const int64_t at = detail::resolve_axis("index_select", axis, ndim());
  detail::need_integers("index_select", "the indices", index);
  if (index.ndim() != 1)
    throw ShapeError(fmt::format("index_select: the indices have shape {}; one axis is needed",
                                 shape_text(index.shape())));
  return detail::gather_axes(*this, {{at, index}});
}

Tensor Tensor::masked_fill(const Tensor& mask, const Operand& value) const {
  if (!mask.dtype().is_bool())
    throw DTypeError(fmt::format("masked_fill: the mask must be bool, given {}", detail::text(mask)));
  return mask.where(value, *this);
}

namespace {
// The places of the true elements of a flat mask, in order. Runs, because their number is a size.
Tensor places_of(const Tensor& mask) {
  const Tensor kept = mask.contiguous();  // it is gone over twice
  const auto count = kept.sum({}, false, dtypes::int64).item<int64_t>();
  if (count == 0) return Tensor::zeros({0}, {.dtype = dtypes::int64});
  if (detail::can_run_loops(kept))
    return detail::true_places(kept, count, kept.size(0).value() > INT32_MAX ? dtypes::int64 : dtypes::int32);
  const Tensor so_far =
      kept.cast(dtypes::int64).cumsum(0);  // the k-th true one is behind all with so_far <= k
  return so_far.le(detail::iota(count, dtypes::int64).unsqueeze(1)).sum(1, false, dtypes::int64);
}
}  // namespace

Tensor Tensor::masked_select(const Tensor& mask) const {
  if (!mask.dtype().is_bool())
    throw DTypeError(fmt::format("masked_select: the mask must be bool, given {}", detail::text(mask)));
  const Shape shape = detail::broadcast_shape("masked_select", {*this, mask});
  const Tensor places = places_of(detail::broadcast_to("masked_select", mask, shape).flatten());
  const Tensor values = detail::broadcast_to("masked_select", *this, shape).flatten();
  if (places.size(0) != Dim(0) && detail::can_run_loops(values)) return detail::picked(values, places);
  return detail::gather_axes(values, {{0, places}});
}

Tensor Tensor::nonzero() const {
  const Tensor places = places_of(cast(dtypes::bool_).flatten());
  if (ndim() == 0) return Tensor::zeros({places.size(0), 0}, {.dtype = default_int()});
  std::vector<Tensor> columns;
  const Ints sizes = detail::int_shape("nonzero", *this);
  int64_t stride = 1;
  for (const int64_t s : sizes) stride *= std::max<int64_t>(s, 1);
  for (const int64_t s : sizes) {
    stride /= std::max<int64_t>(s, 1);
    columns.push_back(places.floordiv(stride).mod(std::max<int64_t>(s, 1)));
  }
  return stack(columns, 1).cast(detail::place_dtype(*std::ranges::max_element(sizes)));
}

}  // namespace quern
