// Scatter, and what is like it: values put into places along an axis (places.h).
#include <fmt/format.h>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/indexing/gather.h"
#include "quern/tensor/indexing/places.h"

namespace quern {
namespace {

void check_source(const char* who, const Tensor& x, const Tensor& index, const Tensor& source) {
  if (source.ndim() != index.ndim())
    throw ShapeError(fmt::format("{}: the source has shape {}, the indices {}: as many axes are needed", who,
                                 shape_text(source.shape()), shape_text(index.shape())));
  for (int64_t a = 0; a < x.ndim(); a++)
    if (index.size(a).uop().vmin() > source.size(a).uop().vmax())
      throw ShapeError(fmt::format("{}: the source {} is smaller than the indices {}", who,
                                   shape_text(source.shape()), shape_text(index.shape())));
}

void check_dtype(const char* who, const Tensor& x, const Tensor& source) {
  if (source.dtype() != x.dtype())
    throw DTypeError(fmt::format("{}: the source is {}, the tensor {}; cast it", who, source.dtype().name(),
                                 x.dtype().name()));
}

Tensor one_number(const Operand& value, DType dtype) { return detail::number(value, dtype, {1, 1, 1}); }
Tensor whole(const Tensor& x) { return x.ndim() == 0 ? x.reshape({1}) : x; }

// Values that are put along an axis of x, each where its index says. On the other axes the indices may be
// shorter than x: what is behind them stays.
class Scatter {
 public:
  Scatter(const char* who, const Tensor& x, int64_t axis, const Tensor& index)
      : who_(who),
        x_(x),
        start_(detail::cut(x, index.shape(), axis)),
        of_(detail::places_of_axes(start_, axis, 1)),
        values_{of_.outer, index.size(axis), of_.inner},
        index_(index.reshape(values_)) {}

  // In x as far as the indices go, as are all results until in_x().
  Tensor start() const { return start_.reshape({of_.outer, of_.places, of_.inner}); }
  Tensor put(const Tensor& start, const Tensor& source, Op op) const {
    return detail::put(who_, start, index_, source, op);
  }
  // Of a tensor that is as large as the indices, or larger.
  Tensor source(const Tensor& given, const Shape& indices) const {
    return detail::cut(given, indices, -1).reshape(values_);
  }
  Tensor in_x(const Tensor& result) const {
    const Tensor part = result.reshape(start_.shape());
    if (same_sizes(part.uop().shape(), x_.uop().shape())) return part;
    const Shape shape = x_.shape();
    const std::vector<std::optional<Dim>> sizes(shape.begin(), shape.end());
    return detail::number(true, dtypes::bool_, part.shape()).pad_to(sizes).where(part.pad_to(sizes), x_);
  }

 private:
  const char* who_;
  const Tensor x_, start_;
  const detail::PlacesOf of_;
  const Shape values_;
  const Tensor index_;
};

// Slices of x along an axis, at the places that a row of indices names.
struct Rows {
  Tensor x, index;  // (outer, places, inner), (1, count, 1)
  Shape rows;       // of as many slices as there are indices, in the shape of x

  Rows(const char* who, const Tensor& given, int64_t axis, const Tensor& indices)
      : x(whole(given)), index(indices) {
    detail::need_integers(who, "the indices", indices);
    if (indices.ndim() > 1)
      throw ShapeError(
          fmt::format("{}: the indices have shape {}; one axis is needed", who, shape_text(indices.shape())));
    const int64_t at = detail::resolve_axis(who, axis, x.ndim());
    const Dim count = indices.numel();
    rows = x.shape();
    rows[static_cast<size_t>(at)] = count;
    const detail::PlacesOf of = detail::places_of_axes(x, at, 1);
    x = x.reshape({of.outer, of.places, of.inner});
    index = indices.reshape({1, count, 1});
  }

  Tensor source(const char* who, const Tensor& given, const Tensor& to) const {
    detail::check_same_device(who, {to, index, given});
    check_dtype(who, to, given);
    if (to.ndim() == 0 ? given.numel() != Dim(1) : !same_sizes(given.uop().shape(), sizes_of(rows)))
      throw ShapeError(fmt::format("{}: the source has shape {}; for {} indices into {} it must have {}", who,
                                   shape_text(given.shape()), index.numel().text(), shape_text(to.shape()),
                                   shape_text(rows)));
    return given.reshape({x.size(0), index.size(1), x.size(2)});
  }
};

}  // namespace

Tensor Tensor::scatter(int64_t axis, const Tensor& index, const Operand& source,
                       const std::string& reduce) const {
  if (!reduce.empty() && reduce != "add" && reduce != "multiply")
    throw ValueError(fmt::format("scatter: reduce is \"{}\", not \"\", \"add\" or \"multiply\"", reduce));
  const int64_t at = detail::resolve_axis("scatter", axis, ndim());
  detail::check_index("scatter", *this, at, index);
  if (source.is_tensor()) {
    detail::check_same_device("scatter", {*this, index, source.tensor()});
    check_source("scatter", *this, index, source.tensor());
    check_dtype("scatter", *this, source.tensor());
  }
  if (index.numel() == Dim(0)) return detail::own_value(*this);
  const Op op = reduce.empty() ? Op::NOOP : reduce == "add" ? Op::ADD : Op::MUL;
  const Scatter s("scatter", *this, at, index);
  const Tensor values =
      source.is_tensor() ? s.source(source.tensor(), index.shape()) : one_number(source, dtype());
  return s.in_x(s.put(s.start(), values, op));
}

Tensor Tensor::scatter_reduce(int64_t axis, const Tensor& index, const Tensor& source,
                              const std::string& reduce, bool include_self) const {
  const int64_t at = detail::resolve_axis("scatter_reduce", axis, ndim());
  detail::check_index("scatter_reduce", *this, at, index);
  detail::check_same_device("scatter_reduce", {*this, index, source});
  check_source("scatter_reduce", *this, index, source);
  check_dtype("scatter_reduce", *this, source);
  const bool is_mean = reduce == "mean";
  Op op = Op::ADD;
  if (reduce == "prod") {
    op = Op::MUL;
  } else if (reduce == "amax") {
    op = Op::MAX;
  } else if (reduce == "amin") {
    op = Op::MIN;
  } else if (reduce != "sum" && !is_mean) {
    throw ValueError(fmt::format(
        "scatter_reduce: reduce is \"{}\", not \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\"", reduce));
  }
  if (index.numel() == Dim(0)) return detail::own_value(*this);
  // A mean is computed in the type of the sum, and is rounded once.
  const DType computed = !is_mean                ? dtype()
                         : is_floating_point()   ? detail::sum_dtype(dtype())
                         : dtype().is_unsigned() ? dtypes::uint64
                                                 : dtypes::int64;
  const Scatter s("scatter_reduce", *this, at, index);
  const Tensor x = s.start().cast(computed), values = s.source(source, index.shape()).cast(computed);
  const Tensor start =
      include_self ? x : s.put(x, one_number(detail::neutral_of(op, computed), computed), Op::NOOP);
  const Tensor total = s.put(start, values, op);
  if (!is_mean) return s.in_x(total);
  const Tensor none = detail::number(include_self ? 1 : 0, dtypes::int64, total.shape());
  const Tensor count = s.put(none, one_number(1, dtypes::int64), Op::ADD).maximum(1).cast(computed);
  const Tensor mean = computed.is_float() ? total / count : total.floordiv(count);
  return s.in_x(mean.cast(dtype()));
}

Tensor Tensor::index_add(int64_t axis, const Tensor& index, const Tensor& source) const {
  const Rows r("index_add", *this, axis, index);
  const Tensor values = r.source("index_add", source, *this);
  return detail::put("index_add", r.x, r.index, values, Op::ADD).reshape(shape());
}

Tensor Tensor::index_copy(int64_t axis, const Tensor& index, const Tensor& source) const {
  const Rows r("index_copy", *this, axis, index);
  const Tensor values = r.source("index_copy", source, *this);
  return detail::put("index_copy", r.x, r.index, values, Op::NOOP).reshape(shape());
}

Tensor Tensor::index_fill(int64_t axis, const Tensor& index, const Operand& value) const {
  const Rows r("index_fill", *this, axis, index);
  if (value.is_tensor() && value.tensor().numel() != Dim(1))
    throw ShapeError(fmt::format("index_fill: the value has shape {}; one number is needed",
                                 shape_text(value.tensor().shape())));
  const Tensor values = detail::to_write("index_fill", value, dtype(), {}).reshape({1, 1, 1});
  return detail::put("index_fill", r.x, r.index, values, Op::NOOP).reshape(shape());
}

Tensor Tensor::bincount(const std::optional<Tensor>& weights, int64_t minlength) const {
  detail::need_integers("bincount", "the values", *this);
  if (ndim() != 1)
    throw ShapeError(
        fmt::format("bincount: the values have shape {}; one axis is needed", shape_text(shape())));
  if (minlength < 0)
    throw ValueError(fmt::format("bincount: minlength is {}; 0 or more is needed", minlength));
  if (weights && !same_sizes(weights->uop().shape(), uop().shape()))
    throw ShapeError(fmt::format("bincount: the weights have shape {}, the values {}",
                                 shape_text(weights->shape()), shape_text(shape())));
  if (weights) detail::check_same_device("bincount", {*this, *weights});
  const DType counted = !weights                       ? default_int()
                        : weights->is_floating_point() ? weights->dtype()
                                                       : dtypes::float64;
  int64_t length = minlength;
  if (detail::int_size("bincount", *this, 0) > 0) {
    const Tensor x = contiguous();  // it is computed once
    const auto least = x.min().cast(dtypes::int64).item<int64_t>(),
               most = x.max().cast(dtypes::int64).item<int64_t>();
    if (least < 0) throw ValueError(fmt::format("bincount: a value is {}; 0 or more are needed", least));
    length = std::max(length, most + 1);
  }
  const Tensor none = detail::number(0, counted, {1, length, 1}),
               values = weights ? weights->cast(counted).reshape({1, size(0), 1}) : one_number(1, counted);
  return detail::put("bincount", none, reshape({1, size(0), 1}), values, Op::ADD).reshape({length});
}

}  // namespace quern
