// Tensors from nothing: constants, counts, and shapes of triangles.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/support.h"

namespace quern {
namespace {

DType checked_dtype(const char* who, DType dtype) {
  if (dtype.is_ptr() || dtype.is_void() || dtype.is_index() || dtype.lanes() != 1)
    throw DTypeError(fmt::format("{}: a tensor cannot hold {}", who, dtype.name()));
  return dtype;
}

// A constant has no device; one that is asked for by name is a copy there.
Tensor constant(const char* who, const Shape& shape, const Operand& value, DType dtype,
                const TensorOptions& options) {
  detail::checked_shape(who, shape);
  const UOp number =
      with_new_identity(value.constant(options.dtype ? checked_dtype(who, *options.dtype) : dtype));
  return detail::placed(Tensor(quern::full(sizes_of(shape), number)), options);
}

// Two tensors that a user makes alike are two: gradients and assignments tell them apart.
Tensor made_of(const Tensor& value, const TensorOptions& options) {
  return detail::placed(Tensor(with_new_identity(value.uop())), options);
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, const TensorOptions& options) {
  const DType dtype = checked_dtype("empty", options.dtype.value_or(default_float()));
  const UOp device =
      device_node(options.device.empty() ? default_device() : detail::device_name("empty", options.device));
  return Tensor(detail::new_memory("empty", dtype, sizes_of(shape), device));
}

Tensor Tensor::full(const Shape& shape, const Operand& value, const TensorOptions& options) {
  if (!value.is_tensor()) return constant("full", shape, value, value.dtype(), options);
  detail::checked_shape("full", shape);
  const Tensor x = options.dtype ? value.tensor().cast(*options.dtype) : value.tensor();
  return detail::placed(detail::broadcast_to("full", x, shape), options);
}
Tensor Tensor::zeros(const Shape& shape, const TensorOptions& options) {
  return constant("zeros", shape, 0, default_float(), options);
}
Tensor Tensor::ones(const Shape& shape, const TensorOptions& options) {
  return constant("ones", shape, 1, default_float(), options);
}

Tensor Tensor::empty_like(const TensorOptions& options) const {
  if (options.device.empty() && devices().size() > 1)
    return Tensor(detail::new_memory_like("empty_like", *this,
                                          checked_dtype("empty_like", options.dtype.value_or(dtype()))));
  return empty(shape(),
               {options.dtype.value_or(dtype()), options.device.empty() ? device() : options.device});
}
Tensor Tensor::full_like(const Operand& value, const TensorOptions& options) const {
  return detail::beside_parts(full(shape(), value, {options.dtype.value_or(dtype()), options.device}), *this,
                              options);
}
Tensor Tensor::zeros_like(const TensorOptions& options) const { return full_like(0, options); }
Tensor Tensor::ones_like(const TensorOptions& options) const { return full_like(1, options); }

namespace {

double as_double(const Operand& number) { return number.constant(dtypes::float64).value().as_float(); }

// start, start + step, ... n of them, as integers: exact.
Tensor counted(wide start, wide step, wide n, std::optional<DType> asked, const TensorOptions& options) {
  if (n > (wide{1} << 50)) throw ShapeError(fmt::format("arange: {} elements are too many", to_string(n)));
  const wide last = start + (n - 1) * step, least = std::min(start, last), most = std::max(start, last);
  const auto holds = [&](DType dtype) { return n == 0 || (fits(dtype, least) && fits(dtype, most)); };
  const DType dtype = asked.value_or(holds(default_int()) ? default_int() : dtypes::int64);
  if (n == 0) return detail::placed(Tensor::zeros({0}, {.dtype = dtype}), options);
  if (dtype.is_int() || dtype.is_bool())
    for (const wide end : {start, last})
      if (!fits(dtype, end))
        throw DTypeError(fmt::format("arange: {} does not fit in {}", to_string(end), dtype.name()));
  // Counted where all are in reach: with the last number at hand, what is between wraps to what it is.
  const DType computed = holds(dtypes::int32) && n < (wide{1} << 30) ? dtypes::int32
                         : holds(dtypes::int64)                      ? dtypes::int64
                                                                     : dtypes::uint64;
  const Tensor i = detail::iota(static_cast<int64_t>(n), computed);
  const Tensor far(UOp::constant(computed, wrap(computed, step))),
      first(UOp::constant(computed, wrap(computed, start)));
  return made_of((i * far + first).cast(dtype), options);
}

}  // namespace

Tensor Tensor::arange(const Operand& stop, const TensorOptions& options) {
  return arange(0, stop, 1, options);
}
Tensor Tensor::arange(const Operand& start, const Operand& stop) { return arange(start, stop, 1); }

Tensor Tensor::arange(const Operand& start, const Operand& stop, const Operand& step,
                      const TensorOptions& options) {
  for (const Operand* number : {&start, &stop, &step})
    if (number->is_tensor())
      throw ValueError(
          fmt::format("arange: given a tensor, {}; numbers are needed", detail::text(number->tensor())));
  const double first = as_double(start), end = as_double(stop), by = as_double(step);
  if (!std::isfinite(first) || !std::isfinite(end) || !std::isfinite(by))
    throw ValueError(fmt::format("arange: start {}, stop {} and step {} must be finite", first, end, by));
  if (by == 0) throw ValueError("arange: the step is 0");
  const auto asked = options.dtype ? std::optional(checked_dtype("arange", *options.dtype)) : std::nullopt;
  if (!start.is_float() && !stop.is_float() && !step.is_float()) {
    const auto integer = [](const Operand& n) { return n.is_bool() ? wide{as_double(n) != 0} : n.integer(); };
    const wide from = integer(start), to = integer(stop), d = integer(step);
    const wide distance = d > 0 ? to - from : from - to, length = d > 0 ? d : -d;
    return counted(from, d, distance > 0 ? (distance + length - 1) / length : 0, asked, options);
  }
  const double steps = std::ceil((end - first) / by);
  if (steps > 1e15) throw ShapeError(fmt::format("arange: {} elements are too many", steps));
  const auto n = static_cast<int64_t>(std::max(steps, 0.0));
  constexpr double kExact = 0x1p53;
  const bool whole = std::trunc(first) == first && std::trunc(by) == by && std::trunc(end) == end &&
                     std::abs(first) <= kExact && std::abs(end) <= kExact && std::abs(by) <= kExact;
  const DType dtype = asked.value_or(whole ? default_int() : default_float());
  if (whole) return counted(static_cast<wide>(first), static_cast<wide>(by), n, dtype, options);
  if (!dtype.is_float())
    throw DTypeError(fmt::format("arange: start {} and step {} are not integers, {} is asked for", first, by,
                                 dtype.name()));
  if (n == 0) return detail::placed(zeros({0}, {.dtype = dtype}), options);
  const DType computed = dtype.bits() >= 32 ? dtype : dtypes::float32;
  return made_of((detail::iota(n, computed) * by + first).cast(dtype), options);
}

Tensor Tensor::linspace(double start, double stop, int64_t steps, const TensorOptions& options) {
  if (steps < 0) throw ShapeError(fmt::format("linspace: {} steps; there must be 0 or more", steps));
  const DType dtype = checked_dtype("linspace", options.dtype.value_or(default_float()));
  if (dtype.is_bool()) throw DTypeError("linspace: bool is not a number");
  if (steps == 0) return detail::placed(zeros({0}, {.dtype = dtype}), options);
  if (steps == 1) return detail::placed(full({1}, start, {.dtype = dtypes::float64}).cast(dtype), options);
  constexpr double kExact = 0x1p24;  // integers of float32
  const bool is_wide = !dtype.is_float() && std::max(std::abs(start), std::abs(stop)) > kExact;
  const DType computed = dtype == dtypes::float64 || is_wide ? dtypes::float64 : dtypes::float32;
  const Tensor i = detail::iota(steps, computed);
  // The last is `stop` itself, not what the steps add up to.
  const Tensor even = i * ((stop - start) / static_cast<double>(steps - 1)) + start;
  return made_of(i.eq(static_cast<double>(steps - 1)).where(stop, even).cast(dtype), options);
}

Tensor Tensor::eye(const Dim& rows, const std::optional<Dim>& columns, const TensorOptions& options) {
  if (const Dim wide = columns.value_or(rows); rows.is_symbolic() || wide.is_symbolic()) {
    const DType dtype = checked_dtype("eye", options.dtype.value_or(default_float()));
    (void)detail::checked_shape("eye", {rows, wide});
    const Tensor row = detail::iota(rows, dtypes::int64).unsqueeze(1),
                 column = detail::iota(wide, dtypes::int64);
    return detail::placed(row.eq(column).cast(dtype), options);
  }
  const int64_t n = rows.value(), m = columns.value_or(rows).value();
  if (n < 0 || m < 0) throw ShapeError(fmt::format("eye: {} rows and {} columns must not be negative", n, m));
  const DType dtype = checked_dtype("eye", options.dtype.value_or(default_float()));
  if (n == 0 || m == 0) return detail::placed(zeros({n, m}, {.dtype = dtype}), options);
  // Rows of one 1 and n zeros, read in rows that are one shorter: the 1 moves to the right.
  const Tensor ones = Tensor::ones({n, 1}, {.dtype = dtype}).pad_axes({{0, 0}, {0, n}}, 0);
  const Tensor square = ones.reshape({n * (n + 1)}).shrink({{{0, n * n}}}).reshape({n, n});
  if (m <= n) return detail::placed(square.shrink({std::nullopt, {{0, m}}}), options);
  return detail::placed(square.pad_axes({{0, 0}, {0, m - n}}, 0), options);
}

std::vector<Tensor> Tensor::meshgrid(const std::vector<Tensor>& axes, const std::string& indexing) {
  if (indexing != "ij" && indexing != "xy")
    throw ValueError(fmt::format("meshgrid: indexing \"{}\" is neither \"ij\" nor \"xy\"", indexing));
  const size_t n = axes.size();
  std::vector<size_t> place(n);
  for (size_t i = 0; i < n; i++) place[i] = i;
  if (indexing == "xy" && n >= 2) std::swap(place[0], place[1]);
  Shape shape(n, Dim(1));
  for (size_t i = 0; i < n; i++) {
    if (axes[i].ndim() > 1)
      throw ShapeError(fmt::format("meshgrid: tensor {} has shape {}; each must have one axis or none", i,
                                   shape_text(axes[i].shape())));
    shape[place[i]] = axes[i].numel();
  }
  std::vector<Tensor> result;
  for (size_t i = 0; i < n; i++) {
    Shape own(n, Dim(1));
    own[place[i]] = axes[i].numel();
    result.push_back(axes[i].reshape(own).expand(shape));
  }
  return result;
}

Tensor Tensor::from_dim(const Dim& dim, std::optional<DType> dtype) {
  const bool holds = fits(default_int(), dim.uop().vmin()) && fits(default_int(), dim.uop().vmax());
  const DType otherwise = holds ? default_int() : dtypes::int64;
  return Tensor(dim.uop().cast(checked_dtype("from_dim", dtype.value_or(otherwise))));
}

namespace {
// Whether column - row >= diagonal, over the last two axes.
Tensor on_or_above(const char* who, const Tensor& x, const Dim& diagonal) {
  detail::need_axes(who, x, 2);
  const Tensor row = detail::iota(x.size(-2), dtypes::int64).unsqueeze(-1),
               column = detail::iota(x.size(-1), dtypes::int64);
  constexpr int64_t kLimit = int64_t{1} << 60;
  const Tensor moved = diagonal.is_symbolic() ? row + Tensor::from_dim(diagonal, dtypes::int64)
                                              : row + std::clamp(diagonal.value(), -kLimit, kLimit);
  return moved.le(column);
}
}  // namespace

Tensor Tensor::triu(const Dim& diagonal) const {
  return on_or_above("triu", *this, diagonal).where(*this, detail::number(0, dtype(), {}));
}
Tensor Tensor::tril(const Dim& diagonal) const {
  if (diagonal == Dim(std::numeric_limits<int64_t>::max())) return detail::own_value(*this);
  return on_or_above("tril", *this, diagonal + Dim(1)).where(detail::number(0, dtype(), {}), *this);
}

Tensor Tensor::diag() const {
  if (ndim() == 2) return diagonal();
  if (ndim() != 1)
    throw ShapeError(fmt::format("diag: needs one or two axes, given {}", shape_text(shape())));
  const int64_t n = detail::int_size("diag", *this, 0);
  if (n == 0) return zeros({0, 0}, {.dtype = dtype()});
  // As eye() is made. What is lazy is computed before it is one of n values in a row.
  const Tensor rows = contiguous().reshape({n, 1}).pad_axes({{0, 0}, {0, n}}, 0);
  return rows.reshape({n * (n + 1)}).shrink({{{0, n * n}}}).reshape({n, n});
}

Tensor Tensor::one_hot(std::optional<int64_t> classes) const {
  detail::need_integers("one_hot", "the indices", *this);
  if (classes && *classes < 0)
    throw ValueError(fmt::format("one_hot: {} classes; there must be 0 or more", *classes));
  const int64_t n = classes ? *classes : max().item<int64_t>() + 1;
  const Tensor wide_index = cast(dtypes::int64).unsqueeze(-1);
  return wide_index.eq(detail::iota(n, dtypes::int64)).cast(default_int());
}

}  // namespace quern
