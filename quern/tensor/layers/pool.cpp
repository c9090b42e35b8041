// Windows over axes, and pooling.
#include "quern/tensor/layers/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/size_conditions.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/indexing/places.h"

namespace quern {
namespace detail {
namespace {

using Part = std::optional<std::pair<Dim, Dim>>;

Tensor first_of_axis(const Tensor& x, size_t axis, int64_t count) {
  std::vector<Part> bounds(static_cast<size_t>(x.ndim()));
  bounds[axis] = {Dim(0), Dim(count)};
  return x.shrink(bounds);
}

// Windows that do not overlap: the axis is cut into pieces of the stride.
Tensor separate_windows(const Tensor& x, size_t axis, int64_t outputs, int64_t kernel, int64_t stride) {
  Shape shape = x.shape();
  const int64_t all = outputs * stride, missing = all - shape[axis].value();
  std::vector<std::pair<Dim, Dim>> padding(shape.size(), {Dim(0), Dim(0)});
  if (missing > 0) padding[axis].second = missing;  // never read
  shape[axis] = outputs;
  shape.insert(shape.begin() + static_cast<int64_t>(axis) + 1, Dim(stride));
  const Tensor pieces = first_of_axis(x.pad_axes(padding, 0), axis, all).reshape(shape);
  return first_of_axis(pieces, axis + 1, kernel);
}

// One axis becomes (output, window): element (o, k) is x[o * stride + k * dilation]. The axis, L long, is
// repeated and read in rows of L + dilation, so that row k begins at k * dilation.
Tensor window_axis(const Tensor& x, size_t axis, int64_t outputs, int64_t kernel, int64_t stride,
                   int64_t dilation) {
  if (kernel == 1 || (dilation == 1 && kernel <= stride))
    return separate_windows(x, axis, outputs, kernel, stride);
  Shape shape = x.shape();
  int64_t length = shape[axis].value();
  Tensor y = x;
  if (const int64_t missing = outputs * stride - length - dilation; missing > 0) {
    std::vector<std::pair<Dim, Dim>> padding(shape.size(), {Dim(0), Dim(0)});
    padding[axis].second = missing;  // never read
    y = y.pad_axes(padding, 0);
    length += missing;
  }
  Ints repeats(shape.size(), 1);
  repeats[axis] = (kernel * (length + dilation) + length - 1) / length;
  y = first_of_axis(y.repeat(repeats), axis, kernel * (length + dilation));
  Shape rows = shape;
  rows[axis] = length + dilation;
  rows.insert(rows.begin() + static_cast<int64_t>(axis), Dim(kernel));
  y = first_of_axis(y.reshape(rows), axis + 1, outputs * stride);
  rows[axis + 1] = outputs;
  rows.insert(rows.begin() + static_cast<int64_t>(axis) + 2, Dim(stride));
  y = first_of_axis(y.reshape(rows), axis + 2, 1);
  rows.erase(rows.begin() + static_cast<int64_t>(axis) + 2);
  return y.reshape(rows).transpose(static_cast<int64_t>(axis), static_cast<int64_t>(axis) + 1);
}

}  // namespace

Tensor pooled(const Tensor& x, const Ints& kernel, const Ints& stride, const Ints& dilation) {
  const size_t n = kernel.size(), front = static_cast<size_t>(x.ndim()) - n;
  Tensor y = x;
  for (size_t i = n; i-- > 0;) {  // from the last: the axes in front keep their numbers
    const int64_t length = y.size(static_cast<int64_t>(front + i)).value();
    const int64_t outputs = (length - (kernel[i] - 1) * dilation[i] - 1) / stride[i] + 1;
    y = window_axis(y, front + i, outputs, kernel[i], stride[i], dilation[i]);
  }
  Ints order;
  for (size_t i = 0; i < front; i++) order.push_back(static_cast<int64_t>(i));
  for (size_t part = 0; part < 2; part++)
    for (size_t i = 0; i < n; i++) order.push_back(static_cast<int64_t>(front + 2 * i + part));
  return y.permute(order);
}

Ints padding_of(const char* who, const IntList& given, size_t n) {
  const Ints& p = given.values();
  for (const int64_t v : p)
    if (v < 0)
      throw ValueError(fmt::format("{}: padding is [{}]; it must not be negative", who, fmt::join(p, ", ")));
  check_window_numbers(who, "padding", p);
  Ints flat;  // (before, after) of the last axis, then of the one in front of it, ...
  if (p.size() == 1) return Ints(2 * n, p[0]);
  if (p.size() == n) {
    for (const int64_t v : std::views::reverse(p)) flat.insert(flat.end(), {v, v});
    return flat;
  }
  if (p.size() == 2 * n) return p;
  throw ShapeError(fmt::format("{}: padding has {} numbers, expected 1, {} or {}", who, p.size(), n, 2 * n));
}

}  // namespace detail

Tensor Tensor::unfold(int64_t axis, int64_t size, int64_t step) const {
  const int64_t at = detail::resolve_axis("unfold", axis, ndim());
  const Dim n = this->size(at);
  const auto text = [&] {
    return fmt::format("unfold: windows of {} elements over axis {} of {}", size, at, n.text());
  };
  if (size < 1 || size > detail::value_now(n.uop()).value_or(n.max())) throw ShapeError(text());
  if (step < 1) throw ValueError(fmt::format("unfold: step {}; it must be positive", step));
  if (n.is_symbolic()) {
    detail::note_not_negative((n.uop() - size).simplify(), text);
    const Dim windows = Dim((quern::max(n.uop() - size, UOp::index(0)) / step + 1).simplify());
    const Tensor begins = detail::iota(windows, dtypes::int64).unsqueeze(1) * step;
    return transpose(at, -1).at({ellipsis, begins + detail::iota(size, dtypes::int64)}).transpose(at, -2);
  }
  return detail::pooled(transpose(at, -1), {size}, {step}, {1}).transpose(at, -2);
}

namespace {

struct Pool {
  Ints kernel, stride, dilation, padding;  // padding: flat, last axis first, ceil mode included
  Ints plain_padding;                      // without what ceil mode adds
};

Pool checked_pool(const char* who, const Tensor& x, const IntList& kernel, const PoolOptions& o) {
  const size_t n = kernel.one_for_all() ? 2 : kernel.values().size();
  if (kernel.values().empty()) throw ShapeError(fmt::format("{}: the window has no axes", who));
  detail::need_axes(who, x, static_cast<int64_t>(n));
  Pool p;
  p.kernel = detail::per_axis(who, "the window", kernel, n, 1);
  p.stride = detail::per_axis(who, "stride", o.stride, n, 1, p.kernel);
  p.dilation = detail::per_axis(who, "dilation", o.dilation, n, 1);
  p.plain_padding = p.padding = detail::padding_of(who, o.padding, n);
  for (size_t i = 0; i < n; i++) {
    const int64_t size = detail::int_size(who, x, static_cast<int64_t>(i) - static_cast<int64_t>(n));
    int64_t& before = p.padding[2 * (n - 1 - i)];
    int64_t& after = p.padding[2 * (n - 1 - i) + 1];
    const int64_t reach = (p.kernel[i] - 1) * p.dilation[i] + 1, room = size + before + after - reach;
    if (room < 0)
      throw ShapeError(fmt::format("{}: the window reaches over {} elements, axis {} has {} with padding",
                                   who, reach, static_cast<int64_t>(i) - static_cast<int64_t>(n),
                                   size + before + after));
    if (o.ceil_mode) {
      int64_t outputs = (room + p.stride[i] - 1) / p.stride[i] + 1;
      if ((outputs - 1) * p.stride[i] >= size + before) outputs--;  // a window must begin inside
      after += std::max<int64_t>((outputs - 1) * p.stride[i] - room, 0);
    }
  }
  return p;
}

Axes window_axes(size_t n) {
  Ints axes;
  for (size_t i = 0; i < n; i++) axes.push_back(-1 - static_cast<int64_t>(i));
  return axes;
}

// Padding in the order of axes, for pad_axes.
std::vector<std::pair<Dim, Dim>> by_axis(const Tensor& x, const Ints& flat) {
  std::vector<std::pair<Dim, Dim>> padding(static_cast<size_t>(x.ndim()), {Dim(0), Dim(0)});
  for (size_t i = 0; i < flat.size() / 2; i++)
    padding[padding.size() - 1 - i] = {flat[2 * i], flat[2 * i + 1]};
  return padding;
}

Operand least_of(DType dtype) {
  return dtype.is_float()  ? Operand(min_value(dtype).as_float())
         : dtype.is_bool() ? Operand(false)
                           : Operand(int_min(dtype));
}

}  // namespace

Tensor Tensor::max_pool2d(const IntList& kernel, const PoolOptions& options) const {
  const Pool p = checked_pool("max_pool2d", *this, kernel, options);
  const Tensor padded = pad_axes(by_axis(*this, p.padding), least_of(dtype()));
  return detail::pooled(padded, p.kernel, p.stride, p.dilation).max(window_axes(p.kernel.size()));
}

Tensor Tensor::avg_pool2d(const IntList& kernel, const PoolOptions& options) const {
  const Pool p = checked_pool("avg_pool2d", *this, kernel, options);
  const Axes over = window_axes(p.kernel.size());
  auto windows_of = [&](const Tensor& x, const Ints& padding) {
    return detail::pooled(x.pad_axes(by_axis(x, padding), 0), p.kernel, p.stride, p.dilation);
  };
  const bool always_full = p.padding == p.plain_padding && options.count_include_pad;
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    const Tensor windows = windows_of(x, p.padding);
    if (always_full) return windows.mean(over);
    // What ceil mode added never counts; the padding that was asked for counts if it is to be included.
    Tensor counted = ones(x.shape(), {.dtype = x.dtype()});
    Ints rest = p.padding;
    if (options.count_include_pad) {
      counted = counted.pad_axes(by_axis(x, p.plain_padding), 1);
      for (size_t i = 0; i < rest.size(); i++) rest[i] -= p.plain_padding[i];
    }
    return windows.sum(over) / windows_of(counted, rest).sum(over);
  });
}

std::pair<Tensor, Tensor> Tensor::max_pool2d_with_indices(const IntList& kernel,
                                                          const PoolOptions& options) const {
  const Pool p = checked_pool("max_pool2d", *this, kernel, options);
  const size_t n = p.kernel.size();
  const auto padding = by_axis(*this, p.padding);
  const Tensor values = detail::pooled(pad_axes(padding, least_of(dtype())), p.kernel, p.stride, p.dilation);
  const Axes over = window_axes(n);
  const Tensor best = values.max(over, true);
  // Places are numbered within the pooled axes of the input; padding is behind all of them.
  Shape spatial;
  int64_t places = 1;
  for (size_t i = 0; i < n; i++) {
    spatial.push_back(size(static_cast<int64_t>(i) - static_cast<int64_t>(n)));
    places *= spatial.back().value();
  }
  Shape shape(static_cast<size_t>(ndim()) - n, Dim(1));
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  const Tensor numbers = detail::iota(places, dtypes::int64).reshape(shape).expand(this->shape());
  const Tensor place = detail::pooled(numbers.pad_axes(padding, places), p.kernel, p.stride, p.dilation);
  const Tensor hit = is_floating_point() ? values.eq(best) | values.isnan() : values.eq(best);
  return {values.max(over), hit.where(place, places).min(over).cast(detail::place_dtype(places))};
}

Tensor Tensor::max_unpool2d(const Tensor& indices, const IntList& kernel, const PoolOptions& options,
                            const std::optional<Ints>& output_size) const {
  detail::need_integers("max_unpool2d", "the indices", indices);
  if (!same_sizes(uop().shape(), indices.uop().shape()))
    throw ShapeError(fmt::format("max_unpool2d: values {} and indices {} differ in shape",
                                 shape_text(shape()), shape_text(indices.shape())));
  const size_t n = kernel.values().size() == 1 ? 2 : kernel.values().size();
  detail::need_axes("max_unpool2d", *this, static_cast<int64_t>(n));
  const Ints window = detail::per_axis("max_unpool2d", "the window", kernel, n, 1);
  const Ints stride = detail::per_axis("max_unpool2d", "stride", options.stride, n, 1, window);
  const Ints padding = detail::padding_of("max_unpool2d", options.padding, n);
  Shape out = shape();
  const size_t front = out.size() - n;
  int64_t places = 1;
  if (output_size && output_size->size() < n)
    throw ShapeError(
        fmt::format("max_unpool2d: output_size has {} numbers, expected {} or more", output_size->size(), n));
  for (size_t i = 0; i < n; i++) {
    const int64_t from = detail::int_size("max_unpool2d", *this, static_cast<int64_t>(front + i));
    const int64_t size = output_size ? (*output_size)[output_size->size() - n + i]
                                     : (from - 1) * stride[i] + window[i] - padding[2 * (n - 1 - i)] -
                                           padding[2 * (n - 1 - i) + 1];
    if (size < 0) throw ShapeError(fmt::format("max_unpool2d: axis {} would have {} elements", i, size));
    out[front + i] = size;
  }
  detail::checked_shape("max_unpool2d", out);
  for (size_t i = 0; i < n; i++) places *= out[front + i].value();
  // Each place takes the value whose index it is; where windows overlap, both are the same maximum.
  // The last value for a place stays, so they are put from the back.
  const Shape given = shape();
  const Dim count = detail::product_of(Shape(given.begin() + static_cast<int64_t>(front), given.end()));
  const Shape three{-1, count, 1};
  if (numel() == Dim(0) || places == 0) return zeros(out, {.dtype = dtype()});
  const Tensor index = indices.cast(dtypes::int64).reshape(three).flip({1});
  return detail::put("max_unpool2d", detail::number(0, dtype(), {index.size(0), places, 1}),
                     index.lt(0).where(places, index), reshape(three).flip({1}), Op::NOOP)
      .reshape(out);
}

}  // namespace quern
