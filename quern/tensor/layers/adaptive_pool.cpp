// Pooling to a number of outputs. Output i of n reads the elements from floor(i size / n) to
// ceil((i + 1) size / n): windows of which neighbours may overlap, and may differ in length.
#include <fmt/format.h>

#include <numeric>

#include "quern/tensor/core/support.h"

namespace quern {
namespace {

using Reduce = std::function<Tensor(const Tensor&, int64_t axis)>;

// Windows repeat after gcd(size, outputs) of the way: such stretches are an axis of their own, and each of
// their windows is a slice.
Tensor reduced_to(const Tensor& x, int64_t axis, int64_t outputs, const Reduce& reduce) {
  Shape shape = x.shape();
  const int64_t size = shape[static_cast<size_t>(axis)].value();
  const int64_t stretches = std::gcd(size, outputs), length = size / stretches, windows = outputs / stretches;
  shape[static_cast<size_t>(axis)] = stretches;
  shape.insert(shape.begin() + axis + 1, Dim(length));
  const Tensor parts = x.reshape(shape);
  std::vector<Tensor> each;
  for (int64_t i = 0; i < windows; i++) {
    const int64_t begin = i * length / windows, end = ((i + 1) * length + windows - 1) / windows;
    each.push_back(reduce(detail::part(parts, axis + 1, begin, end), axis + 1));
  }
  shape.erase(shape.begin() + axis + 1);
  shape[static_cast<size_t>(axis)] = outputs;
  return windows == 1 ? each[0].reshape(shape) : Tensor::stack(each, axis + 1).reshape(shape);
}

Tensor adaptive(const char* who, const Tensor& given, const IntList& sizes, const Reduce& reduce) {
  const auto axes = sizes.one_for_all() ? 2 : std::ssize(sizes.values());
  if (axes == 0) throw ShapeError(fmt::format("{}: no sizes are given", who));
  detail::need_axes(who, given, axes);
  const Ints outputs = detail::per_axis(who, "the output", sizes, static_cast<size_t>(axes), 1);
  for (int64_t i = 0; i < axes; i++)
    if (detail::int_size(who, given, given.ndim() - axes + i) == 0)
      throw ShapeError(
          fmt::format("{}: axis {} of {} is empty", who, given.ndim() - axes + i, shape_text(given.shape())));
  Tensor x = given;
  for (int64_t i = 0; i < axes; i++)
    x = reduced_to(x, given.ndim() - axes + i, outputs[static_cast<size_t>(i)], reduce);
  return detail::own_value(x, given);
}

}  // namespace

Tensor Tensor::adaptive_avg_pool2d(const IntList& size) const {
  return detail::in_wide_float(*this, [&](const Tensor& x) {
    return adaptive("adaptive_avg_pool2d", x, size,
                    [](const Tensor& t, int64_t axis) { return t.mean(axis); });
  });
}
Tensor Tensor::adaptive_max_pool2d(const IntList& size) const {
  return adaptive("adaptive_max_pool2d", *this, size,
                  [](const Tensor& t, int64_t axis) { return t.max(axis); });
}

}  // namespace quern
