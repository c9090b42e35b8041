// Padding in its modes, windows of one axis, diagonals.
#include <fmt/format.h>

#include <algorithm>

#include "quern/tensor/core/support.h"

namespace quern {
namespace {

using detail::part;

// What stands before and behind an axis of n elements, for the modes that repeat what is there.
Tensor repeated_around(const Tensor& x, int64_t axis, int64_t before, int64_t after,
                       const std::string& mode) {
  const int64_t n = detail::int_size("pad", x, axis), most = mode == "reflect"    ? n - 1
                                                             : mode == "circular" ? n
                                                                                  : before + after;
  if (n == 0 || std::max(before, after) > most)
    throw ShapeError(fmt::format("pad: mode {} cannot pad axis {} of {} by ({}, {})", mode, axis,
                                 shape_text(x.shape()), before, after));
  std::vector<Tensor> parts;
  auto edge = [&](int64_t at, int64_t count) {
    Shape wide_shape = x.shape();
    wide_shape[static_cast<size_t>(axis)] = count;
    return part(x, axis, at, at + 1).expand(wide_shape);
  };
  if (before > 0)
    parts.push_back(mode == "reflect"    ? part(x, axis, 1, before + 1).flip(axis)
                    : mode == "circular" ? part(x, axis, n - before, n)
                                         : edge(0, before));
  parts.push_back(x);
  if (after > 0)
    parts.push_back(mode == "reflect"    ? part(x, axis, n - 1 - after, n - 1).flip(axis)
                    : mode == "circular" ? part(x, axis, 0, after)
                                         : edge(n - 1, after));
  return Tensor::cat(parts, axis);
}

}  // namespace

Tensor Tensor::pad(const Ints& padding, const std::string& mode) const { return pad(padding, mode, 0); }
Tensor Tensor::pad(const Ints& padding, const std::string& mode, const Operand& value) const {
  if (mode != "constant" && mode != "reflect" && mode != "replicate" && mode != "circular")
    throw ValueError(fmt::format(
        "pad: mode \"{}\" is not \"constant\", \"reflect\", \"replicate\" or \"circular\"", mode));
  if (padding.size() % 2 != 0 || std::ssize(padding) / 2 > ndim())
    throw ShapeError(fmt::format("pad: {} numbers for {}; two an axis are needed, the last axis first",
                                 padding.size(), shape_text(shape())));
  Tensor x = *this;
  for (size_t i = 0; i < padding.size() / 2; i++) {
    const int64_t axis = ndim() - 1 - static_cast<int64_t>(i);
    int64_t before = padding[2 * i], after = padding[2 * i + 1];
    if (before < 0 || after < 0) {  // negative padding takes away
      const int64_t n = detail::int_size("pad", x, axis), begin = std::max<int64_t>(-before, 0),
                    end = n - std::max<int64_t>(-after, 0);
      if (begin > end || begin > n || end < 0)
        throw ShapeError(
            fmt::format("pad: ({}, {}) takes more than the {} elements of axis {}", before, after, n, axis));
      x = part(x, axis, begin, end);
      before = std::max<int64_t>(before, 0), after = std::max<int64_t>(after, 0);
    }
    if (before == 0 && after == 0) continue;
    if (mode != "constant") {
      x = repeated_around(x, axis, before, after, mode);
      continue;
    }
    std::vector<std::pair<Dim, Dim>> one(static_cast<size_t>(ndim()), {Dim(0), Dim(0)});
    one[static_cast<size_t>(axis)] = {before, after};
    x = x.pad_axes(one, value);
  }
  return detail::own_value(x, *this);
}

Tensor Tensor::diagonal(int64_t offset, int64_t axis1, int64_t axis2) const {
  const int64_t a = detail::resolve_axis("diagonal", axis1, ndim()),
                b = detail::resolve_axis("diagonal", axis2, ndim());
  if (a == b) throw ShapeError(fmt::format("diagonal: axis {} is named twice", axis1));
  Ints order;
  for (int64_t i = 0; i < ndim(); i++)
    if (i != a && i != b) order.push_back(i);
  order.insert(order.end(), {a, b});
  Tensor x = permute(order);
  const int64_t rows = detail::int_size("diagonal", x, -2), columns = detail::int_size("diagonal", x, -1);
  const int64_t top = std::clamp<int64_t>(offset < 0 ? -std::max(offset, -rows) : 0, 0, rows);
  const int64_t left = std::clamp<int64_t>(offset, 0, columns), n = std::min(rows - top, columns - left);
  Shape shape = x.shape();
  shape.pop_back();
  shape.back() = n;
  if (n == 0) return Tensor::zeros(shape, {.dtype = dtype()});
  const int64_t axes = ndim();
  x = part(part(x, axes - 2, top, top + n), axes - 1, left, left + n);
  // n rows of n elements, with n more behind them, read in rows of n + 1: the diagonal is the first column.
  Shape flat = shape;
  flat.back() = n * n;
  std::vector<std::pair<Dim, Dim>> behind(flat.size(), {Dim(0), Dim(0)});
  behind.back().second = n;
  Shape longer = shape;
  longer.emplace_back(n + 1);
  return part(x.reshape(flat).pad_axes(behind, 0).reshape(longer), axes - 1, 0, 1).reshape(shape);
}

// ---- Resizing. Positions are fractions of integers, so that they are exact.

namespace {

// Pictures of bytes: weights are integers of 15 bits, and each axis is rounded by itself, the last one first.
// That is what PyTorch does, to the bit. A weight is a number of parts, of which there are `parts` between
// two elements.
Tensor weighed(const Tensor& below, const Tensor& above, const Tensor& weight, int64_t parts, int64_t most) {
  int bits = 0;  // as many as the greatest weight leaves room for
  while (bits < 22 && ((most << (bits + 2)) + parts) / (2 * parts) < 1 << 15) bits++;
  const auto integer = [&](const Tensor& w) {
    return (w * (int64_t{2} << bits) + parts).floordiv(2 * parts).cast(dtypes::int32);
  };
  const Tensor sum = below * integer(parts - weight) + above * integer(weight) + (1 << bits) / 2;
  return sum.rshift(bits).clamp(0, 255);
}

// The greatest weight that a neighbour has, over all outputs.
int64_t greatest_weight(int64_t in, int64_t out, int64_t parts, bool align_corners) {
  int64_t most = 0;
  for (int64_t i = 0; i < out; i++) {
    const int64_t at = align_corners ? i * (in - 1) : (i * 2 + 1) * in - out,
                  rest = std::clamp<int64_t>(at, 0, (in - 1) * parts) % parts;
    most = std::max({most, rest, parts - rest});
  }
  return most;
}

}  // namespace

Tensor Tensor::interpolate(const Ints& size, const std::string& mode, bool align_corners) const {
  const bool linear = mode == "linear" || mode == "bilinear" || mode == "trilinear";
  if (!linear && mode != "nearest" && mode != "nearest-exact")
    throw ValueError(
        fmt::format("interpolate: mode \"{}\" is not \"linear\", \"bilinear\", \"trilinear\", \"nearest\" or "
                    "\"nearest-exact\"",
                    mode));
  if (align_corners && !linear) throw ValueError("interpolate: align_corners needs a linear mode");
  if (size.empty() || std::ssize(size) > ndim())
    throw ShapeError(
        fmt::format("interpolate: {} sizes for the axes of {}", size.size(), shape_text(shape())));
  const bool of_bytes = linear && dtype() == dtypes::uint8;
  const DType computed = of_bytes ? dtypes::int32 : detail::sum_dtype(detail::to_float(*this).dtype());
  Tensor x = linear ? cast(computed) : *this;
  for (size_t k = 0; k < size.size(); k++) {
    const size_t i = of_bytes ? size.size() - 1 - k : k;
    const int64_t axis = ndim() - std::ssize(size) + static_cast<int64_t>(i),
                  in = detail::int_size("interpolate", x, axis), out = size[i];
    if (out < 1 || in < 1)
      throw ShapeError(fmt::format("interpolate: axis {} from {} to {} elements", axis, in, out));
    const Tensor place = detail::iota(out, dtypes::int64);
    if (!linear) {
      const Tensor from =
          mode == "nearest" ? (place * in).floordiv(out) : ((place * 2 + 1) * in).floordiv(2 * out);
      x = x.index_select(axis, from);
      continue;
    }
    const int64_t parts =
        align_corners ? std::max<int64_t>(out - 1, 1) : 2 * out;  // of the distance of two elements
    const Tensor at =
        (align_corners ? place * (in - 1) : (place * 2 + 1) * in - out).clamp(0, (in - 1) * parts);
    const Tensor low = at.floordiv(parts), high = (low + 1).minimum(in - 1);
    Shape along(static_cast<size_t>(ndim()), Dim(1));
    along[static_cast<size_t>(axis)] = out;
    const Tensor below = x.index_select(axis, low), above = x.index_select(axis, high);
    if (of_bytes) {
      x = weighed(below, above, at.mod(parts).reshape(along), parts,
                  greatest_weight(in, out, parts, align_corners));
      continue;
    }
    const Tensor weight = (at.mod(parts).cast(computed) / static_cast<double>(parts)).reshape(along);
    x = below + (above - below) * weight;
  }
  return linear ? x.cast(dtype()) : x;
}

}  // namespace quern
