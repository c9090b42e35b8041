// Convolutions in any number of dimensions: windows, multiplied and summed.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "quern/tensor/core/size_conditions.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/layers/conv_gradient.h"
#include "quern/tensor/layers/pool.h"

namespace quern {
namespace {

void check_groups(const char* who, int64_t groups, int64_t channels, const char* which) {
  if (groups < 1) throw ValueError(fmt::format("{}: groups is {}; it must be positive", who, groups));
  if (channels % groups != 0)
    throw ShapeError(
        fmt::format("{}: {} {} channels cannot be divided into {} groups", who, channels, which, groups));
}

size_t spatial_axes(const char* who, const Tensor& x, const Tensor& weight) {
  if (weight.ndim() < 3 || x.ndim() != weight.ndim())
    throw ShapeError(fmt::format("{}: input {} and weight {} need the same number of axes, at least 3", who,
                                 shape_text(x.shape()), shape_text(weight.shape())));
  return static_cast<size_t>(weight.ndim() - 2);
}

Tensor with_bias(const char* who, const Tensor& y, const std::optional<Tensor>& bias, int64_t channels,
                 size_t n) {
  if (!bias) return y;
  if (bias->ndim() != 1 || !detail::same_dims(bias->size(0), channels))
    throw ShapeError(
        fmt::format("{}: bias has shape {}, expected ({},)", who, shape_text(bias->shape()), channels));
  Shape shape{1, channels};
  shape.insert(shape.end(), n, Dim(1));
  return y + bias->reshape(shape);
}

// An axis of a transposed convolution.
struct Transposed {
  int64_t size = 0;    // of the output
  int64_t step = 1;    // that many neighbours are channels at first
  int64_t steps = 0;   // and there are so many of these
  int64_t first = 0;   // of what they are together, the output begins here
  int64_t kernel = 0;  // elements for each of the neighbours
};

Tensor with_zeros_between(const Tensor& x, int64_t axis, int64_t stride) {
  const int64_t size = x.size(axis).value();
  Shape rows = x.shape(), joined = rows;
  rows.insert(rows.begin() + axis + 1, Dim(1));
  std::vector<std::pair<Dim, Dim>> zeros(rows.size(), {Dim(0), Dim(0)});
  zeros[static_cast<size_t>(axis) + 1].second = stride - 1;
  joined[static_cast<size_t>(axis)] = size * stride;
  std::vector<std::optional<Dim>> cut(joined.size());
  cut[static_cast<size_t>(axis)] = (size - 1) * stride + 1;
  return x.reshape(rows).pad_axes(zeros, 0).reshape(joined).shrink_to(cut);
}

// (in, out, kernel...) to (groups * out * steps..., in / groups, kernel...), reversed.
Tensor transposed_filters(const Tensor& weight, int64_t groups, const std::vector<Transposed>& axes) {
  const Shape shape = weight.shape();
  const int64_t in = shape[0].value() / groups, n = std::ssize(axes);
  int64_t out = groups * shape[1].value();
  std::vector<std::pair<Dim, Dim>> padding(shape.size(), {Dim(0), Dim(0)});
  Shape split{groups, in, shape[1]}, joined{Dim(0), in};
  Ints order{0, 2}, reversed;
  for (int64_t i = 0; i < n; i++) {
    const Transposed& t = axes[static_cast<size_t>(i)];
    padding[static_cast<size_t>(i) + 2].second =
        t.kernel * t.step - shape[static_cast<size_t>(i) + 2].value();
    split.insert(split.end(), {Dim(t.kernel), Dim(t.step)});
    joined.emplace_back(t.kernel);
    reversed.push_back(3 + 2 * i);
    order.push_back(4 + 2 * i);
    out *= t.step;
  }
  joined[0] = out;
  order.push_back(1);
  order.insert(order.end(), reversed.begin(), reversed.end());
  return weight.pad_axes(padding, 0).reshape(split).flip(reversed).permute(order).reshape(joined);
}

// (batch, channels * neighbours..., steps...) to (batch, channels, outputs...).
Tensor in_their_places(const Tensor& x, int64_t channels, const std::vector<Transposed>& axes) {
  const auto n = std::ssize(axes);
  if (std::ranges::all_of(axes, [](const Transposed& t) { return t.step == 1; })) return x;
  Shape split{x.size(0), channels}, joined = split;
  Ints order{0, 1};
  std::vector<std::optional<std::pair<Dim, Dim>>> cut(2);
  for (const Transposed& t : axes) split.emplace_back(t.step);
  for (const Transposed& t : axes) {
    order.insert(order.end(), {std::ssize(joined) + n, std::ssize(joined)});
    split.emplace_back(t.steps);
    joined.emplace_back(t.steps * t.step);
    cut.emplace_back(std::pair<Dim, Dim>{t.first, t.first + t.size});
  }
  return x.reshape(split).contiguous().permute(order).reshape(joined).shrink(cut);
}

// Axes of symbolic size are as long as they can be at most, with zeros behind what there is of them.
// `outputs` says how long each is afterwards.
bool is_symbolic(const Tensor& x, size_t n) {
  const Shape shape = x.shape();
  return std::any_of(shape.end() - static_cast<int64_t>(n), shape.end(),
                     [](const Dim& d) { return d.is_symbolic(); });
}
Tensor with_known_sizes(const Tensor& x, size_t n, const std::function<Tensor(const Tensor&)>& f,
                        const std::function<Dim(size_t axis, const Dim& size)>& outputs) {
  const Shape shape = x.shape();
  std::vector<std::optional<Dim>> most(shape.size()), left(shape.size());
  for (size_t i = 0; i < n; i++) {
    const size_t axis = shape.size() - n + i;
    if (!shape[axis].is_symbolic()) continue;
    most[axis] = shape[axis].max();
    left[axis] = outputs(i, shape[axis]);
  }
  return f(x.pad_to(most)).shrink_to(left);
}

}  // namespace

Tensor Tensor::conv2d(const Tensor& weight, const std::optional<Tensor>& bias, const ConvOptions& o) const {
  const size_t n = spatial_axes("conv2d", *this, weight);
  if (is_symbolic(*this, n)) {
    const Ints step = detail::per_axis("conv2d", "stride", o.stride, n, 1),
               apart = detail::per_axis("conv2d", "dilation", o.dilation, n, 1),
               around = detail::padding_of("conv2d", o.padding, n);
    return with_known_sizes(
        *this, n, [&](const Tensor& x) { return x.conv2d(weight, bias, o); },
        [&](size_t i, const Dim& size) {
          const auto axis = static_cast<int64_t>(i + 2);
          const int64_t reach = (detail::int_size("conv2d", weight, axis) - 1) * apart[i] + 1;
          const int64_t more = around[2 * (n - 1 - i)] + around[2 * (n - 1 - i) + 1] - reach;
          const auto text = [&](const std::string& has) {
            return fmt::format(
                "conv2d: the kernel reaches over {} elements, axis {} of the padded input has {}", reach,
                axis, has);
          };
          if (const auto now = detail::value_now(size.uop()); now && *now + more < 0)
            throw ShapeError(text(to_string(*now + more + reach)));
          detail::note_not_negative(size.uop() + more,
                                    [&] { return text(Dim(size.uop() + more + reach).text()); });
          return Dim(detail::at_least_0((size.uop() + more) / step[i] + 1));
        });
  }
  const int64_t out = detail::int_size("conv2d", weight, 0), in = detail::int_size("conv2d", weight, 1);
  check_groups("conv2d", o.groups, out, "output");
  if (const int64_t channels = detail::int_size("conv2d", *this, 1); channels != in * o.groups)
    throw ShapeError(fmt::format("conv2d: weight has {} input channels, input has {} (groups={})", in,
                                 channels, o.groups));
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
      throw ShapeError(
          fmt::format("conv2d: the kernel reaches over {} elements, axis {} of the padded input has {}",
                      reach, axis, size));
  }
  const DType result = detail::product_dtype(promote(dtype(), weight.dtype())),
              computed = detail::sum_dtype(result);
  const Tensor windows =
      detail::pooled(padded, kernel, stride, dilation);  // (batch, channels, outputs..., kernel...)
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
  const UOp known = as_convolution(y.uop(), padded.uop(), weight.uop(), {o.groups, stride, dilation});
  return with_bias("conv2d", Tensor(known), bias, out, n);
}

// The transpose of a convolution is one by the reversed kernel. A stride s puts outputs i = q * s + r next to
// each other that use different elements of the kernel, k = m * s + r: each r is an output channel of its
// own, in a convolution of stride 1, and afterwards they are put in their places.
Tensor Tensor::conv_transpose2d(const Tensor& weight, const std::optional<Tensor>& bias,
                                const ConvTransposeOptions& o) const {
  const char* who = "conv_transpose2d";
  const size_t n = spatial_axes(who, *this, weight);
  const int64_t in = detail::int_size(who, weight, 0),
                out = detail::int_size(who, weight, 1);  // out: of a group
  check_groups(who, o.groups, in, "input");
  if (const int64_t channels = detail::int_size(who, *this, 1); channels != in)
    throw ShapeError(fmt::format("{}: weight has {} input channels, input has {}", who, in, channels));
  const Ints stride = detail::per_axis(who, "stride", o.stride, n, 1),
             dilation = detail::per_axis(who, "dilation", o.dilation, n, 1);
  const Ints extra = detail::per_axis(who, "output_padding", o.output_padding, n, 0);
  const Ints padding = detail::padding_of(who, o.padding, n);
  if (is_symbolic(*this, n))
    return with_known_sizes(
        *this, n, [&](const Tensor& x) { return x.conv_transpose2d(weight, bias, o); },
        [&](size_t i, const Dim& size) {
          const int64_t kernel = detail::int_size(who, weight, static_cast<int64_t>(i + 2));
          const int64_t more = (kernel - 1) * dilation[i] + 1 + extra[i] - padding[2 * (n - 1 - i)] -
                               padding[2 * (n - 1 - i) + 1];
          return Dim(detail::at_least_0((size.uop() - 1) * stride[i] + more));
        });
  Tensor x = *this;
  Ints around;
  std::vector<Transposed> axes;
  for (size_t i = 0; i < n; i++) {
    const auto axis = static_cast<int64_t>(i + 2);
    const int64_t kernel = detail::int_size(who, weight, axis), before = padding[2 * (n - 1 - i)];
    int64_t size = detail::int_size(who, x, axis);
    if (size < 1 || kernel < 1)
      throw ShapeError(fmt::format("{}: axis {} of input or kernel is empty", who, axis));
    if (extra[i] >= std::max(stride[i], dilation[i]))
      throw ValueError(fmt::format("{}: output_padding {} must be below stride {} or dilation {}", who,
                                   extra[i], stride[i], dilation[i]));
    Transposed t;
    t.size = (size - 1) * stride[i] + (kernel - 1) * dilation[i] + 1 + extra[i] - before -
             padding[2 * (n - 1 - i) + 1];
    if (t.size < 1)
      throw ShapeError(fmt::format("{}: axis {} of the output would have {} elements", who, axis, t.size));
    if (dilation[i] == 1) {
      t.step = stride[i];
    } else if (stride[i] > 1) {
      x = with_zeros_between(x, axis, stride[i]);
      size = (size - 1) * stride[i] + 1;
    }
    t.kernel = (kernel + t.step - 1) / t.step;
    t.first = before % t.step;
    const int64_t begin = before / t.step, end = (before + t.size + t.step - 1) / t.step;
    t.steps = end - begin;
    const int64_t reach = (t.kernel - 1) * dilation[i];
    around.insert(around.begin(), {reach - begin, end - size});
    axes.push_back(t);
  }
  // Padded in memory: each element is read for many outputs, and without asking where it is.
  const Tensor y = x.pad(around).contiguous().conv2d(
      transposed_filters(weight, o.groups, axes), {},
      {.groups = o.groups, .stride = 1, .dilation = dilation, .padding = 0});
  return with_bias(who, in_their_places(y, o.groups * out, axes), bias, o.groups * out, n);
}

}  // namespace quern
