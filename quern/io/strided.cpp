#include "quern/io/strided.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quern/base/error.h"

namespace quern::io {
namespace {

struct Axis {
  int64_t size, stride;
};

// Everything in bounds? Returns the number of elements.
wide check(int64_t memory, int64_t offset, std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  const auto refuse = [&](const char* why) {
    throw ShapeError(fmt::format("a view of sizes ({}) and strides ({}) at {} of {} elements {}",
                                 fmt::join(sizes, ", "), fmt::join(strides, ", "), offset, memory, why));
  };
  if (sizes.size() != strides.size() || sizes.size() > 64) refuse("has not as many sizes as strides");
  if (offset < 0) refuse("begins before it");
  wide elements = 1, last = offset;
  for (size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] < 0 || strides[i] < 0) refuse("has negative numbers");
    if (sizes[i] > int64_t{1} << 48) refuse("is too large");
    elements *= sizes[i];
    if (elements > wide{1} << 56) refuse("is too large");
    last = std::min(last + wide{std::max<int64_t>(sizes[i] - 1, 0)} * strides[i], wide{1} << 100);
  }
  if (elements > 0 && last >= memory) refuse("leaves it");
  return elements;
}

// Sorted by stride, greatest first. Does each stride span what the smaller ones reach?
bool are_nested(const std::vector<Axis>& axes) {
  wide reach = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i].stride < reach) return false;
    reach += wide{axes[i].size - 1} * axes[i].stride;
  }
  return true;
}

// The last axis gets this length, by leaving out or by adding zeros that nobody reads.
Tensor with_length(const Tensor& x, int64_t length) {
  const int64_t now = x.size(-1).value();
  std::vector<std::optional<Dim>> sizes(static_cast<size_t>(x.ndim()));
  sizes.back() = length;
  return now < length ? x.pad_to(sizes) : now > length ? x.shrink_to(sizes) : x;
}

Tensor by_movement(const Tensor& memory, int64_t offset, const std::vector<Axis>& axes) {
  Tensor x = memory.shrink({{{Dim(offset), memory.size(0)}}});
  for (const Axis& axis : axes) {
    x = with_length(x, axis.size * axis.stride);
    x = x.unflatten(-1, {axis.size, axis.stride});
  }
  return with_length(x, 1).squeeze(-1);
}

Tensor by_index(const Tensor& memory, int64_t offset, const std::vector<Axis>& axes) {
  Tensor place = Tensor::full({}, offset, {.dtype = dtypes::int64, .device = memory.device()});
  for (const Axis& axis : axes) {
    const TensorOptions options{.dtype = dtypes::int64, .device = memory.device()};
    place = place.unsqueeze(-1) + Tensor::arange(axis.size, options) * axis.stride;
  }
  return memory.at({place});
}

}  // namespace

Tensor strided(const Tensor& memory, int64_t offset, std::span<const int64_t> sizes,
               std::span<const int64_t> strides) {
  const Shape shape(sizes.begin(), sizes.end());
  if (check(memory.size(0).value(), offset, sizes, strides) == 0)
    return Tensor::zeros(shape, {.dtype = memory.dtype(), .device = memory.device()});
  // What does not move is left out, and comes back as an axis of 1 that is expanded.
  std::vector<size_t> order;
  Shape with_ones = shape;
  for (size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] > 1 && strides[i] > 0)
      order.push_back(i);
    else
      with_ones[i] = 1;
  }
  const std::vector<size_t> unsorted = order;
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return strides[i]; });
  std::vector<Axis> axes;
  axes.reserve(order.size());
  for (const size_t i : order) axes.push_back({sizes[i], strides[i]});
  const Tensor view = are_nested(axes) ? by_movement(memory, offset, axes) : by_index(memory, offset, axes);
  Ints back;
  for (const size_t i : unsorted) back.push_back(std::ranges::find(order, i) - order.begin());
  return view.permute(back).reshape(with_ones).expand(shape);
}

}  // namespace quern::io
