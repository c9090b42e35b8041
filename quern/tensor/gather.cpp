// Gather and scatter: as sums over all places of which at most one counts, which the scheduler turns into
// loads.
#include "quern/tensor/gather.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/tensor/support.h"

namespace quern {
namespace detail {
namespace {

Tensor wrapped(const Tensor& index, const Dim& size) {  // negative ones from the end
  const Tensor i = index.cast(dtypes::int64);
  return i.lt(0).where(i + Tensor::from_dim(size, dtypes::int64), i);
}

Ints moved_to_end(int64_t axes, int64_t axis) {
  Ints order;
  for (int64_t a = 0; a < axes; a++)
    if (a != axis) order.push_back(a);
  order.push_back(axis);
  return order;
}

Ints inverse(const Ints& order) {
  Ints result(order.size());
  for (size_t i = 0; i < order.size(); i++) result[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return result;
}

}  // namespace

Tensor gather_axes(const Tensor& x, const std::vector<std::pair<int64_t, Tensor>>& indices) {
  std::vector<Tensor> tensors;
  Ints order;
  for (const auto& [axis, t] : indices) {
    tensors.push_back(t);
    order.push_back(axis);
  }
  check_same_device("index", tensors);
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
  for (int64_t i = 0; i < count; i++) {
    const Dim size = all[static_cast<size_t>(i)];
    Shape spread = shape, places(static_cast<size_t>(x.ndim()), Dim(1));
    spread.resize(shape.size() + all.size(), Dim(1));
    places[static_cast<size_t>(i)] = size;
    const auto at = static_cast<size_t>(i);
    const Tensor index = broadcast_to("index", wrapped(tensors[at], size), shape).reshape(spread);
    const Tensor here = index.eq(iota(size, dtypes::int64).reshape(places));
    hit = hit ? *hit & here : here;
    indexed.push_back(axis + i);
  }
  Tensor result = reduced("index", hit->where(sorted, number(0, x.dtype(), {})), Op::ADD, indexed, false);
  if (!neighbours || first == 0) return result;
  Ints back;  // the kept axes in front of the indexed ones go first
  for (int64_t a = 0; a < first; a++) back.push_back(axis + a);
  for (int64_t a = 0; a < axis; a++) back.push_back(a);
  for (int64_t a = axis + first; a < result.ndim(); a++) back.push_back(a);
  return result.permute(back);
}

}  // namespace detail

namespace {

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

// Everything that scatters needs: `hit` has the shape (others..., places, values); the axis stands last.
struct Scatter {
  Tensor hit, source;  // source: (others..., 1, values)
  Ints order;          // from the user's axes to these
  Shape padded;        // (others of x..., places)

  Tensor back(const Tensor& x) const {  // (others..., places), smaller than x perhaps, in the user's axes
    std::vector<std::optional<Dim>> sizes(padded.begin(), padded.end());
    return x.pad_to(sizes).permute(detail::inverse(order));
  }
};

Scatter prepared(const char* who, const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source) {
  check_index(who, x, axis, index);
  if (source.ndim() != index.ndim())
    throw ShapeError(fmt::format("{}: the source has shape {}, the indices {}: as many axes are needed", who,
                                 shape_text(source.shape()), shape_text(index.shape())));
  for (int64_t a = 0; a < x.ndim(); a++)
    if (index.size(a).uop().vmin() > source.size(a).uop().vmax())
      throw ShapeError(fmt::format("{}: the source {} is smaller than the indices {}", who,
                                   shape_text(source.shape()), shape_text(index.shape())));
  if (source.dtype() != x.dtype())
    throw DTypeError(fmt::format("{}: the source is {}, the tensor {}; cast it", who, source.dtype().name(),
                                 x.dtype().name()));
  const Ints order = detail::moved_to_end(x.ndim(), axis);
  const Tensor places = detail::wrapped(index, x.size(axis)).permute(order).unsqueeze(-2);
  const Tensor counted = detail::iota(x.size(axis), dtypes::int64).unsqueeze(-1);
  return {places.eq(counted), cut(source, index.shape(), -1).permute(order).unsqueeze(-2), order,
          x.permute(order).shape()};
}

Tensor combined(const char* who, const Scatter& s, Op op, const Operand& neutral) {
  const DType dtype = s.source.dtype();
  return detail::reduced(who, s.hit.where(s.source, detail::number(neutral, dtype, {})), op, -1, false);
}

}  // namespace

Tensor Tensor::gather(int64_t axis, const Tensor& index) const {
  const int64_t at = detail::resolve_axis("gather", axis, ndim());
  check_index("gather", *this, at, index);
  const Ints order = detail::moved_to_end(ndim(), at);
  const Tensor values = cut(*this, index.shape(), at).permute(order).unsqueeze(-2);     // (others, 1, n)
  const Tensor places = detail::wrapped(index, size(at)).permute(order).unsqueeze(-1);  // (others, m, 1)
  const Tensor hit = places.eq(detail::iota(size(at), dtypes::int64));
  const Tensor found =
      detail::reduced("gather", hit.where(values, detail::number(0, dtype(), {})), Op::ADD, -1, false);
  return found.permute(detail::inverse(order));
}

Tensor Tensor::index_select(int64_t axis, const Tensor& index) const {
  const int64_t at = detail::resolve_axis("index_select", axis, ndim());
  detail::need_integers("index_select", "the indices", index);
  if (index.ndim() != 1)
    throw ShapeError(fmt::format("index_select: the indices have shape {}; one axis is needed",
                                 shape_text(index.shape())));
  return detail::gather_axes(*this, {{at, index}});
}

Tensor Tensor::scatter(int64_t axis, const Tensor& index, const Operand& source,
                       const std::string& reduce) const {
  if (!reduce.empty() && reduce != "add" && reduce != "multiply")
    throw ValueError(fmt::format("scatter: reduce is \"{}\", not \"\", \"add\" or \"multiply\"", reduce));
  const int64_t at = detail::resolve_axis("scatter", axis, ndim());
  const Tensor values = source.is_tensor() ? source.tensor() : detail::number(source, dtype(), index.shape());
  const Scatter s = prepared("scatter", *this, at, index, values);
  if (index.numel() == Dim(0)) return detail::own_value(*this);
  if (reduce == "add") return *this + s.back(combined("scatter", s, Op::ADD, 0));
  if (reduce == "multiply") {
    const Tensor any = s.back(s.hit.any(-1));
    return any.where(*this * s.back(combined("scatter", s, Op::MUL, detail::neutral_of(Op::MUL, dtype()))),
                     *this);
  }
  // The last of the values for a place stays.
  const Tensor number = detail::iota(s.hit.size(-1), dtypes::int64);
  const Tensor last = s.hit.where(number, -1).max(-1, true);
  const Scatter one{s.hit & last.eq(number), s.source, s.order, s.padded};
  return s.back(s.hit.any(-1)).where(s.back(combined("scatter", one, Op::ADD, 0)), *this);
}

Tensor Tensor::scatter_reduce(int64_t axis, const Tensor& index, const Tensor& source,
                              const std::string& reduce, bool include_self) const {
  const int64_t at = detail::resolve_axis("scatter_reduce", axis, ndim());
  const Scatter s = prepared("scatter_reduce", *this, at, index, source);
  const Tensor any = s.back(s.hit.any(-1));
  auto with_self = [&](Op op) {
    const Operand neutral = detail::neutral_of(op, dtype());
    const Tensor values = s.back(combined("scatter_reduce", s, op, neutral));
    const Tensor start = include_self ? *this : any.where(detail::number(neutral, dtype(), {}), *this);
    return any.where(detail::apply(op, start, any.where(values, detail::number(neutral, dtype(), {}))),
                     *this);
  };
  if (reduce == "sum") return with_self(Op::ADD);
  if (reduce == "prod") return with_self(Op::MUL);
  if (reduce == "amax") return with_self(Op::MAX);
  if (reduce == "amin") return with_self(Op::MIN);
  if (reduce != "mean")
    throw ValueError(fmt::format(
        "scatter_reduce: reduce is \"{}\", not \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\"", reduce));
  const Tensor count = s.back(s.hit.sum(-1, false, dtypes::int64)) + (include_self ? 1 : 0);
  const Tensor total = with_self(Op::ADD), divisor = any.where(count, 1).cast(dtype());
  return any.where(is_floating_point() ? total / divisor : total.floordiv(divisor), *this);
}

Tensor Tensor::masked_fill(const Tensor& mask, const Operand& value) const {
  if (!mask.dtype().is_bool())
    throw DTypeError(fmt::format("masked_fill: the mask must be bool, given {}", detail::text(mask)));
  return mask.where(value, *this);
}

namespace {
// The places of the true elements of a flat mask, in order. Runs, because their number is a size.
Tensor places_of(const Tensor& mask) {
  const auto count = mask.sum({}, false, dtypes::int64).item<int64_t>();
  if (count == 0) return Tensor::zeros({0}, {.dtype = dtypes::int64});
  const Tensor so_far =
      mask.cast(dtypes::int64).cumsum(0);  // the k-th true one is behind all with so_far <= k
  return so_far.le(detail::iota(count, dtypes::int64).unsqueeze(1)).sum(1, false, dtypes::int64);
}
}  // namespace

Tensor Tensor::masked_select(const Tensor& mask) const {
  if (!mask.dtype().is_bool())
    throw DTypeError(fmt::format("masked_select: the mask must be bool, given {}", detail::text(mask)));
  const Shape shape = detail::broadcast_shape("masked_select", {*this, mask});
  const Tensor places = places_of(detail::broadcast_to("masked_select", mask, shape).flatten());
  return detail::gather_axes(detail::broadcast_to("masked_select", *this, shape).flatten(), {{0, places}});
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
  return stack(columns, 1).cast(default_int());
}

}  // namespace quern
