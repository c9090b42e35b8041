#include "quern/tensor/core/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <unordered_map>

#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/shape/movement.h"

namespace quern::detail {

int64_t resolve_axis(const char* who, int64_t axis, int64_t axes) {
  if (axis < -axes || axis >= axes)
    throw AxisError(axes == 0 ? fmt::format("{}: axis {} of a tensor of no axes", who, axis)
                              : fmt::format("{}: axis {} is not in [{}, {}]", who, axis, -axes, axes - 1));
  return axis < 0 ? axis + axes : axis;
}

Ints resolve_axes(const char* who, const Axes& axes, int64_t count) {
  Ints result;
  if (!axes.given()) {
    result.resize(static_cast<size_t>(count));
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  for (const int64_t axis : axes.values()) result.push_back(resolve_axis(who, axis, count));
  std::ranges::sort(result);
  if (const auto twice = std::ranges::adjacent_find(result); twice != result.end())
    throw ShapeError(
        fmt::format("{}: axis {} is named twice in [{}]", who, *twice, fmt::join(axes.values(), ", ")));
  return result;
}

Tensor part(const Tensor& x, int64_t axis, const Dim& begin, const Dim& end) {
  std::vector<std::optional<std::pair<Dim, Dim>>> bounds(static_cast<size_t>(x.ndim()));
  bounds[static_cast<size_t>(axis < 0 ? axis + x.ndim() : axis)] = {begin, end};
  return x.shrink(bounds);
}

std::string device_name(const char* who, const std::string& given) {
  if (given.empty()) throw ValueError(fmt::format("{}: the name of the device is empty", who));
  const size_t colon = given.find(':');
  std::string kind = given.substr(0, colon);
  std::ranges::transform(kind, kind.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (colon == std::string::npos) return kind;
  std::string detail = given.substr(colon + 1);
  const bool number =
      !detail.empty() && std::ranges::all_of(detail, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (number && kind != "DISK") {
    detail.erase(0, std::min(detail.find_first_not_of('0'), detail.size()));
    if (detail.empty()) return kind;
  }
  return kind + ":" + detail;
}

Tensor placed(const Tensor& x, const TensorOptions& options) {
  return options.device.empty() ? x : x.to(options.device);
}

Shape checked_shape(const char* who, const Shape& shape) {
  wide elements = 1;
  for (const Dim& d : shape) {
    if (d.uop().vmin() < 0) throw ShapeError(fmt::format("{}: negative size in {}", who, shape_text(shape)));
    if (d.uop().vmax() == 0) elements = 0;
  }
  for (const Dim& d : shape) {
    elements *= d.uop().vmax();
    if (elements >= int_max(dtypes::int64))  // a sum that is larger ends there, too
      throw ShapeError(fmt::format("{}: {} has more than 2^63 elements", who, shape_text(shape)));
  }
  return shape;
}

std::string text(const Tensor& x) { return fmt::format("{} {}", x.dtype().name(), shape_text(x.shape())); }

bool same_dims(const Dim& a, const Dim& b) { return same_sizes(Sources(&a.uop(), 1), Sources(&b.uop(), 1)); }
Dim sum_of(const Dim& a, const Dim& b) { return {a.uop() + b.uop()}; }
Dim difference(const Dim& a, const Dim& b) { return {a.uop() - b.uop()}; }
Dim product(const Dim& a, const Dim& b) { return {a.uop() * b.uop()}; }
Dim product_of(const Shape& sizes) {
  Dim all = 1;
  for (const Dim& d : sizes) all = product(all, d);
  return all;
}
Dim ceil_div(const Dim& a, int64_t b) { return {(a.uop() + (b - 1)) / b}; }

std::optional<wide> value_now(const UOp& size) {
  if (size.is_int_const()) return size.int_value();
  std::unordered_map<UOp, UOp> values;
  walk(size, [&](const UOp& u) {
    if (u.op() == Op::BIND) values.emplace(u, u.src(1));
  });
  const UOp now = size.substitute(values).simplify();
  return now.is_int_const() ? std::optional(now.int_value()) : std::nullopt;
}
UOp at_least_0(const UOp& size) {
  const UOp simple = size.simplify();
  return simple.vmin() < 0 ? max(simple, simple.const_like(0)).simplify() : simple;
}

Ints int_shape(const char* who, const Tensor& x) {
  Ints sizes;
  for (const Dim& d : x.shape()) {
    if (d.is_symbolic())
      throw ShapeError(fmt::format("{}: shape {} has a symbolic size, which is not supported here", who,
                                   shape_text(x.shape())));
    sizes.push_back(d.value());
  }
  return sizes;
}

int64_t int_size(const char* who, const Tensor& x, int64_t axis) {
  const Dim d = x.size(axis);
  if (d.is_symbolic())
    throw ShapeError(fmt::format("{}: axis {} of {} is symbolic, which is not supported here", who, axis,
                                 shape_text(x.shape())));
  return d.value();
}

Ints per_axis(const char* who, const char* what, const IntList& given, size_t n, int64_t least,
              const IntList& fallback) {
  const IntList& list = given.given() ? given : fallback;
  Ints values = list.values();
  if (values.size() == 1) values.assign(n, values[0]);
  if (values.size() != n)
    throw ShapeError(fmt::format("{}: {} has {} numbers, expected 1 or {}", who, what, values.size(), n));
  for (const int64_t v : values)
    if (v < least)
      throw ValueError(
          fmt::format("{}: {} is [{}]; each must be at least {}", who, what, fmt::join(values, ", "), least));
  check_window_numbers(who, what, values);
  return values;
}

// Products of two of them, and sums of those, are numbers.
void check_window_numbers(const char* who, const char* what, const Ints& values) {
  constexpr int64_t kMost = int64_t{1} << 31;
  for (const int64_t v : values)
    if (v > kMost)
      throw ValueError(
          fmt::format("{}: {} is [{}]; each must be at most 2^31", who, what, fmt::join(values, ", ")));
}

// ---- Broadcasting

Shape broadcast_shape(const char* who, const std::vector<Tensor>& tensors) {
  size_t axes = 0;
  std::vector<Shape> shapes;
  for (const Tensor& t : tensors) {
    shapes.push_back(t.shape());
    axes = std::max(axes, shapes.back().size());
  }
  Shape result(axes, Dim(1));
  for (const Shape& shape : shapes)
    for (size_t i = 0; i < shape.size(); i++) {
      Dim& size = result[axes - shape.size() + i];
      if (shape[i] == Dim(1) || same_dims(shape[i], size)) continue;
      if (size == Dim(1)) {
        size = shape[i];
        continue;
      }
      std::string all;
      for (const Shape& s : shapes) all += (all.empty() ? "" : " and ") + shape_text(s);
      throw ShapeError(fmt::format("{}: shapes {} cannot be broadcast together: sizes {} and {}", who, all,
                                   size.text(), shape[i].text()));
    }
  return result;
}

bool may_broadcast(const Shape& a, const Shape& b) {
  for (size_t i = 1; i <= std::min(a.size(), b.size()); i++) {
    const Dim &x = a[a.size() - i], &y = b[b.size() - i];
    if (x != Dim(1) && y != Dim(1) && !same_dims(x, y)) return false;
  }
  return true;
}

void check_broadcasts(const char* who, const char* what, const Tensor& x, const Shape& shape) {
  if (!may_broadcast(x.shape(), shape))
    throw ShapeError(fmt::format("{}: {} has shape {}, which cannot be broadcast to {}", who, what,
                                 shape_text(x.shape()), shape_text(shape)));
}

Tensor broadcast_to(const char* who, const Tensor& x, const Shape& shape) {
  const UOp u = x.uop();
  const UOps& from = u.shape();
  if (from.size() > shape.size())
    throw ShapeError(fmt::format("{}: {} has more axes than {}", who, shape_text(from), shape_text(shape)));
  const size_t front = shape.size() - from.size();
  UOps padded(front, UOp::index(1));
  padded.insert(padded.end(), from.begin(), from.end());
  for (size_t i = 0; i < from.size(); i++)
    if (!from[i].equals(1) && !same_dims(from[i], shape[front + i]))
      throw ShapeError(fmt::format("{}: {} cannot be broadcast to {}: axis {} is {}, not 1 or {}", who,
                                   shape_text(from), shape_text(shape), i, Dim(from[i]).text(),
                                   shape[front + i].text()));
  const UOp with_ones = quern::reshape(u, padded);
  const UOps sizes = sizes_of(shape);
  if (with_ones.op() != Op::EXPAND || !viewed_by(u).is_const() || same_sizes(with_ones.shape(), sizes))
    return x.seen_as(quern::expand(with_ones, sizes));
  // A constant of this shape, of which x is a view, would be the same node.
  UOps sources{with_ones};
  sources.insert(sources.end(), sizes.begin(), sizes.end());
  return x.seen_as(UOp::make(Op::EXPAND, u.dtype(), sources));
}

Tensor own_value(const Tensor& result, const Tensor& given) {
  const UOp u = result.uop(), &base = viewed_by(u);
  if (!same(base, viewed_by(given.uop()))) return result;
  return Tensor(base.is_const() ? full(u.shape(), with_new_identity(base)) : with_new_identity(u));
}

Tensor number(const Operand& value, DType dtype, const Shape& shape) {
  return Tensor(quern::full(sizes_of(shape), value.constant(dtype)));
}

Tensor polynomial(const Tensor& x, std::span<const double> c) {
  Tensor sum = like(x, c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = multiply_add(sum, x, like(x, c[i]));
  return sum;
}
Tensor like(const Tensor& x, double value) { return number(value, x.dtype(), x.shape()); }

void check_same_device(const char* who, const std::vector<Tensor>& tensors) {
  Texts first;
  for (const Tensor& t : tensors) {
    const Texts device = t.devices();
    if (device.empty()) continue;
    if (first.empty()) first = device;
    if (device != first)
      throw Error(fmt::format("{}: one tensor is on {}, another on {}; move one with to()", who,
                              fmt::join(first, "+"), fmt::join(device, "+")));
  }
}

std::pair<Tensor, Tensor> matched(const char* who, const Operand& a, const Operand& b) {
  if (!a.is_tensor() && !b.is_tensor()) {
    const DType dtype = common_dtype(a, b);
    return {number(a, dtype, {}), number(b, dtype, {})};
  }
  if (a.is_tensor() && b.is_tensor()) {
    check_same_device(who, {a.tensor(), b.tensor()});
    const DType dtype = common_dtype(a, b);
    const Shape shape = broadcast_shape(who, {a.tensor(), b.tensor()});
    return {broadcast_to(who, a.tensor().cast(dtype), shape),
            broadcast_to(who, b.tensor().cast(dtype), shape)};
  }
  const Tensor& tensor = a.is_tensor() ? a.tensor() : b.tensor();
  const Operand& other = a.is_tensor() ? b : a;
  const DType dtype = common_dtype(a, b);
  const Tensor x = tensor.cast(dtype), y = number(other, dtype, tensor.shape());
  return a.is_tensor() ? std::pair(x, y) : std::pair(y, x);
}

Tensor apply(Op op, const Tensor& a) { return Tensor(UOp::alu(op, {a.uop()})); }
Tensor apply(Op op, const Tensor& a, const Tensor& b) { return Tensor(UOp::alu(op, {a.uop(), b.uop()})); }
Tensor if_else(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return Tensor(UOp::alu(Op::WHERE, {condition.uop(), yes.uop(), no.uop()}));
}
Tensor rarely(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return Tensor(UOp::alu(Op::WHERE, {condition.uop(), yes.uop(), no.uop()}).with_hint(&Hints::rare, true));
}
Tensor multiply_add(const Tensor& a, const Tensor& b, const Tensor& c) {
  return Tensor(UOp::alu(Op::MULACC, {a.uop(), b.uop(), c.uop()}));
}
Tensor binary(const char* who, Op op, const Operand& a, const Operand& b) {
  const auto [x, y] = matched(who, a, b);
  return apply(op, x, y);
}

// ---- Dtypes

Tensor to_float(const Tensor& x) { return x.dtype().is_float() ? x : x.cast(default_float()); }

DType unsigned_of(int bits) {
  switch (bits) {
    case 8: return dtypes::uint8;
    case 16: return dtypes::uint16;
    case 32: return dtypes::uint32;
    default: return dtypes::uint64;
  }
}

DType sum_dtype(DType dtype) {
  if (dtype.is_float()) return promote(dtype, dtypes::float32);
  if (dtype.is_unsigned()) return promote(dtype, dtypes::uint32);
  return promote(dtype, dtypes::int32);
}

DType product_dtype(DType dtype) { return dtype.is_float() ? dtype : sum_dtype(dtype); }

Operand neutral_of(Op op, DType dtype) {
  const Const c = identity_element(op, dtype);
  if (dtype.is_float()) return c.as_float();
  return dtype.is_bool() ? Operand(c.as_bool()) : Operand(c.integer(dtype));
}

Tensor in_wide_float(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  const Tensor value = to_float(x);
  if (value.dtype().bits() >= 32) return f(value);
  return f(value.cast(dtypes::float32)).cast(value.dtype());
}

void need_axes(const char* who, const Tensor& x, int64_t least) {
  if (x.ndim() < least)
    throw ShapeError(fmt::format("{}: needs at least {} axes, given {}", who, least, shape_text(x.shape())));
}
void need_integers(const char* who, const char* what, const Tensor& x) {
  if (!x.dtype().is_int())
    throw DTypeError(fmt::format("{}: {} must be integers, given {}", who, what, text(x)));
}

// ---- Counting

Tensor windows(const Tensor& x, int64_t axis, const Dim& count, const Dim& size) {
  // The axis, L long, is repeated count + 1 times and read in rows of L + 1: row i begins at place i of the
  // axis.
  const auto at = static_cast<size_t>(axis);
  Shape shape = x.shape();
  const Dim length = x.size(axis);
  Shape spread = shape, rows = shape, repeated = shape;
  spread.insert(spread.begin() + axis, Dim(1));
  repeated.insert(repeated.begin() + axis, sum_of(count, 1));
  Tensor y = x.reshape(spread).expand(repeated);
  rows[at] = product(sum_of(count, 1), length);
  y = y.reshape(rows);
  std::vector<std::optional<std::pair<Dim, Dim>>> bounds(shape.size());
  bounds[at] = {Dim(0), product(count, sum_of(length, 1))};
  y = y.shrink(bounds);
  Shape split = shape;
  split[at] = sum_of(length, 1);
  split.insert(split.begin() + axis, count);
  bounds.assign(split.size(), std::nullopt);
  bounds[at + 1] = {Dim(0), size};
  return y.reshape(split).shrink(bounds);
}

DType place_dtype(const Dim& n) {
  return fits(default_int(), n.uop().vmax() - 1) ? default_int() : dtypes::int64;
}

Tensor iota(const Dim& n, DType dtype) {
  if (n.uop().vmax() == 0) return Tensor::zeros({0}, {.dtype = dtype});
  if (n.uop().vmin() < 0) return iota(n.max(), dtype).shrink({{{Dim(0), n}}});  // none, where it is negative
  if (n.uop().vmax() > wide{1} << 62)
    throw ShapeError(fmt::format("an axis of {} elements is too long to be counted", n.text()));
  const bool countable = dtype.is_int() && fits(dtype, n.uop().vmax());
  const DType counted = countable ? dtype : dtypes::int64;
  return Tensor(UOp::make(Op::IOTA, counted, {n.uop()})).cast(dtype);
}

Tensor positions(const Tensor& x, int64_t axis, DType dtype) {
  Shape shape(static_cast<size_t>(x.ndim()), Dim(1));
  shape[static_cast<size_t>(axis)] = x.size(axis);
  return iota(x.size(axis), dtype).reshape(shape);
}

}  // namespace quern::detail
