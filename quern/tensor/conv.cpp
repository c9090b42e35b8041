// Convolutions in any number of dimensions: windows, multiplied and summed.
#include <fmt/format.h>

#include "quern/tensor/pool.h"
#include "quern/tensor/support.h"

namespace quern {
namespace {

void check_groups(const char* who, int64_t groups, int64_t channels, const char* which) {
  if (groups < 1) throw Error(fmt::format("{}: groups is {}; it must be positive", who, groups));
  if (channels % groups != 0) throw ShapeError(fmt::format("{}: {} {} channels cannot be divided into {} groups", who, channels, which, groups));
}

size_t spatial_axes(const char* who, const Tensor& x, const Tensor& weight) {
  if (weight.ndim() < 3 || x.ndim() != weight.ndim())
    throw ShapeError(fmt::format("{}: input {} and weight {} need the same number of axes, at least 3", who, shape_text(x.shape()), shape_text(weight.shape())));
  return static_cast<size_t>(weight.ndim() - 2);
}

Tensor with_bias(const char* who, const Tensor& y, const std::optional<Tensor>& bias, int64_t channels, size_t n) {
  if (!bias) return y;
  if (bias->ndim() != 1 || !detail::same_dims(bias->size(0), channels))
    throw ShapeError(fmt::format("{}: bias has shape {}, expected ({},)", who, shape_text(bias->shape()), channels));
  Shape shape{1, channels};
  shape.insert(shape.end(), n, Dim(1));
  return y + bias->reshape(shape);
}

}  // namespace

Tensor Tensor::conv2d(const Tensor& weight, const std::optional<Tensor>& bias, const ConvOptions& o) const {
  const size_t n = spatial_axes("conv2d", *this, weight);
  const int64_t out = detail::int_size("conv2d", weight, 0), in = detail::int_size("conv2d", weight, 1);
  check_groups("conv2d", o.groups, out, "output");
  if (const int64_t channels = detail::int_size("conv2d", *this, 1); channels != in * o.groups)
    throw ShapeError(fmt::format("conv2d: weight has {} input channels, input has {} (groups={})", in, channels, o.groups));
  detail::check_same_device("conv2d", {*this, weight});
  const Ints stride = detail::per_axis("conv2d", "stride", o.stride, n, 1);
  const Ints dilation = detail::per_axis("conv2d", "dilation", o.dilation, n, 1);
  const Tensor padded = pad(detail::padding_of("conv2d", o.padding, n));
  Ints kernel;
  for (size_t i = 0; i < n; i++) {
    const auto axis = static_cast<int64_t>(i + 2);
    kernel.push_back(detail::int_size("conv2d", weight, axis));
    const int64_t size = detail::int_size("conv2d", padded, axis), reach = (kernel[i] - 1) * dilation[i] + 1;
    if (kernel[i] < 1 || reach > size)
      throw ShapeError(fmt::format("conv2d: the kernel reaches over {} elements, axis {} of the padded input has {}", reach, axis, size));
  }
  const DType result = promote(dtype(), weight.dtype()), computed = detail::sum_dtype(result);
  const Tensor windows = detail::pooled(padded, kernel, stride, dilation);  // (batch, channels, outputs..., kernel...)
  const Shape shape = windows.shape();
  // (batch, groups, 1, outputs..., channels of a group, kernel...)
  Shape grouped{shape[0], o.groups, in, Dim(1)};
  grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
  Ints order{0, 1, 3};
  for (size_t i = 0; i < n; i++) order.push_back(static_cast<int64_t>(4 + i));
  order.push_back(2);
  for (size_t i = 0; i < n; i++) order.push_back(static_cast<int64_t>(4 + n + i));
  const Tensor x = windows.reshape(grouped).permute(order).cast(result).cast(computed);
  Shape filters{Dim(1), o.groups, out / o.groups};
  filters.insert(filters.end(), n, Dim(1));
  filters.emplace_back(in);
  for (const int64_t k : kernel) filters.emplace_back(k);
  const Tensor w = weight.reshape(filters).cast(result).cast(computed);
  Ints over;
  for (size_t i = 0; i <= n; i++) over.push_back(-1 - static_cast<int64_t>(i));
  Shape final_shape{shape[0], out};
  final_shape.insert(final_shape.end(), shape.begin() + 2, shape.begin() + 2 + static_cast<int64_t>(n));
  const Tensor y = (x * w).sum(over, false, computed).reshape(final_shape).cast(result);
  return with_bias("conv2d", y, bias, out, n);
}

// The transpose of a convolution is one of the input with zeros between its elements, by the reversed kernel.
Tensor Tensor::conv_transpose2d(const Tensor& weight, const std::optional<Tensor>& bias, const ConvTransposeOptions& o) const {
  const char* who = "conv_transpose2d";
  const size_t n = spatial_axes(who, *this, weight);
  const int64_t in = detail::int_size(who, weight, 0), out = detail::int_size(who, weight, 1);  // out: of a group
  check_groups(who, o.groups, in, "input");
  if (const int64_t channels = detail::int_size(who, *this, 1); channels != in)
    throw ShapeError(fmt::format("{}: weight has {} input channels, input has {}", who, in, channels));
  const Ints stride = detail::per_axis(who, "stride", o.stride, n, 1), dilation = detail::per_axis(who, "dilation", o.dilation, n, 1);
  const Ints extra = detail::per_axis(who, "output_padding", o.output_padding, n, 0);
  const Ints padding = detail::padding_of(who, o.padding, n);
  Tensor x = *this;
  Ints around, spatial;
  for (size_t i = 0; i < n; i++) {
    const auto axis = static_cast<int64_t>(i + 2);
    const int64_t size = detail::int_size(who, x, axis), kernel = detail::int_size(who, weight, axis);
    if (size < 1 || kernel < 1) throw ShapeError(fmt::format("{}: axis {} of input or kernel is empty", who, axis));
    if (extra[i] >= std::max(stride[i], dilation[i]))
      throw Error(fmt::format("{}: output_padding {} must be below stride {} or dilation {}", who, extra[i], stride[i], dilation[i]));
    spatial.push_back(axis);
    if (stride[i] > 1) {
      Shape rows = x.shape();
      rows.insert(rows.begin() + axis + 1, Dim(1));
      std::vector<std::pair<Dim, Dim>> zeros_between(rows.size(), {Dim(0), Dim(0)});
      zeros_between[static_cast<size_t>(axis) + 1].second = stride[i] - 1;
      Shape joined = x.shape();
      joined[static_cast<size_t>(axis)] = size * stride[i];
      std::vector<std::optional<Dim>> cut(joined.size());
      cut[static_cast<size_t>(axis)] = (size - 1) * stride[i] + 1;
      x = x.reshape(rows).pad_axes(zeros_between, 0).reshape(joined).shrink_to(cut);
    }
    const int64_t reach = (kernel - 1) * dilation[i];
    const size_t at = 2 * (n - 1 - i);
    around.insert(around.begin(), {reach - padding[at], reach - padding[at + 1] + extra[i]});
  }
  Shape split{o.groups, in / o.groups, out};
  const Shape kernel_shape = weight.shape();
  split.insert(split.end(), kernel_shape.begin() + 2, kernel_shape.end());
  Shape joined{o.groups * out, in / o.groups};
  joined.insert(joined.end(), kernel_shape.begin() + 2, kernel_shape.end());
  const Tensor filters = weight.flip(spatial).reshape(split).transpose(1, 2).reshape(joined);
  return x.pad(around).conv2d(filters, bias, {.groups = o.groups, .stride = 1, .dilation = dilation, .padding = 0});
}

}  // namespace quern
