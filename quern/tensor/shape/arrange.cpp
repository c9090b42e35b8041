// Axes moved, parts taken and images rearranged, by the names that users of PyTorch know.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "quern/tensor/core/support.h"

namespace quern {

Tensor Tensor::movedim(const Axes& from, const Axes& to) const {
  const Ints &source = from.values(), &target = to.values();
  if (source.size() != target.size())
    throw ValueError(fmt::format("movedim: {} axes are moved to {} places", source.size(), target.size()));
  (void)detail::resolve_axes("movedim", source, ndim());  // none twice
  (void)detail::resolve_axes("movedim", target, ndim());
  Ints order(static_cast<size_t>(ndim()), -1);
  std::vector<bool> moved(order.size(), false);
  for (size_t i = 0; i < source.size(); i++) {
    const int64_t axis = detail::resolve_axis("movedim", source[i], ndim());
    order[static_cast<size_t>(detail::resolve_axis("movedim", target[i], ndim()))] = axis;
    moved[static_cast<size_t>(axis)] = true;
  }
  int64_t next = 0;
  for (int64_t& place : order) {
    if (place >= 0) continue;
    while (moved[static_cast<size_t>(next)]) next++;
    place = next++;
  }
  return permute(order);
}

Tensor Tensor::tile(const Ints& repeats) const {
  Ints all = repeats;
  if (std::cmp_less(all.size(), ndim())) all.insert(all.begin(), static_cast<size_t>(ndim()) - all.size(), 1);
  for (const int64_t r : all)
    if (r < 0) throw ShapeError(fmt::format("tile: {} times; it must be 0 or more", r));
  return repeat(all);
}

std::vector<Tensor> Tensor::unbind(int64_t axis) const {
  detail::need_axes("unbind", *this, 1);
  const int64_t at = detail::resolve_axis("unbind", axis, ndim()), n = detail::int_size("unbind", *this, at);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < n; i++) parts.push_back(detail::part(*this, at, i, i + 1).squeeze(at));
  return parts;
}

Tensor Tensor::narrow(int64_t axis, int64_t start, int64_t length) const {
  const int64_t at = detail::resolve_axis("narrow", axis, ndim()), n = detail::int_size("narrow", *this, at);
  const int64_t begin = start < 0 ? start + n : start;
  if (start < -n || begin > n || length < 0 || length > n - begin)
    throw IndexError(fmt::format("narrow: {} elements from {} on, axis {} has {}", length, start, axis, n));
  return detail::part(*this, at, begin, begin + length);
}

Tensor Tensor::select(int64_t axis, int64_t index) const {
  const int64_t at = detail::resolve_axis("select", axis, ndim()), n = detail::int_size("select", *this, at);
  if (index < -n || index >= n)
    throw IndexError(fmt::format("select: index {} of axis {}, which has {} elements", index, axis, n));
  const int64_t begin = index < 0 ? index + n : index;
  return detail::part(*this, at, begin, begin + 1).squeeze(at);
}

Tensor Tensor::vstack(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) throw ValueError("vstack: no tensors are given");
  std::vector<Tensor> rows;
  for (const Tensor& t : tensors)
    rows.push_back(t.ndim() == 0 ? t.reshape({1, 1}) : t.ndim() == 1 ? t.unsqueeze(0) : t);
  return cat(rows, 0);
}
Tensor Tensor::hstack(const std::vector<Tensor>& tensors) {
  if (tensors.empty()) throw ValueError("hstack: no tensors are given");
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) parts.push_back(t.ndim() == 0 ? t.reshape({1}) : t);
  return cat(parts, parts[0].ndim() == 1 ? 0 : 1);
}

Tensor Tensor::pixel_shuffle(int64_t factor) const {
  detail::need_axes("pixel_shuffle", *this, 3);
  if (factor < 1)
    throw ValueError(fmt::format("pixel_shuffle: the factor is {}, expected 1 or more", factor));
  Shape front = shape();
  const Dim width = front.back(), height = front[front.size() - 2];
  const int64_t channels = detail::int_size("pixel_shuffle", *this, -3);
  if (factor > channels || channels % (factor * factor) != 0)
    throw ShapeError(fmt::format("pixel_shuffle: {} channels of {} are no multiple of {} * {}", channels,
                                 shape_text(shape()), factor, factor));
  front.erase(front.end() - 3, front.end());
  const auto f = static_cast<int64_t>(front.size());
  Ints order;
  for (int64_t a = 0; a < f; a++) order.push_back(a);
  order.insert(order.end(), {f, f + 3, f + 1, f + 4, f + 2});
  Shape split = front, joined = front;
  split.insert(split.end(), {Dim(channels / (factor * factor)), Dim(factor), Dim(factor), height, width});
  joined.insert(joined.end(), {Dim(channels / (factor * factor)), detail::product(height, factor),
                               detail::product(width, factor)});
  return detail::own_value(reshape(split).permute(order).reshape(joined), *this);
}

Tensor Tensor::pixel_unshuffle(int64_t factor) const {
  detail::need_axes("pixel_unshuffle", *this, 3);
  if (factor < 1)
    throw ValueError(fmt::format("pixel_unshuffle: the factor is {}, expected 1 or more", factor));
  const int64_t height = detail::int_size("pixel_unshuffle", *this, -2),
                width = detail::int_size("pixel_unshuffle", *this, -1);
  if (height % factor != 0 || width % factor != 0)
    throw ShapeError(fmt::format("pixel_unshuffle: the last axes of {} are no multiples of {}",
                                 shape_text(shape()), factor));
  Shape front = shape();
  const Dim channels = front[front.size() - 3];
  front.erase(front.end() - 3, front.end());
  const auto f = static_cast<int64_t>(front.size());
  Ints order;
  for (int64_t a = 0; a < f; a++) order.push_back(a);
  order.insert(order.end(), {f, f + 2, f + 4, f + 1, f + 3});
  Shape split = front, joined = front;
  split.insert(split.end(), {channels, Dim(height / factor), Dim(factor), Dim(width / factor), Dim(factor)});
  joined.insert(joined.end(), {detail::product(detail::product(channels, factor), factor),
                               Dim(height / factor), Dim(width / factor)});
  return detail::own_value(reshape(split).permute(order).reshape(joined), *this);
}

Tensor Tensor::take_along_dim(const Tensor& index, int64_t axis) const {
  const int64_t at = detail::resolve_axis("take_along_dim", axis, ndim());
  detail::need_integers("take_along_dim", "the indices", index);
  if (index.ndim() != ndim())
    throw ShapeError(
        fmt::format("take_along_dim: the indices have shape {}, the tensor {}: as many axes are needed",
                    shape_text(index.shape()), shape_text(shape())));
  Shape own = shape(), its = index.shape(), both;
  its[static_cast<size_t>(at)] = own[static_cast<size_t>(at)];
  both = detail::broadcast_shape("take_along_dim",
                                 {*this, empty(its, {.dtype = index.dtype(), .device = index.device()})});
  own = both, its = both;
  its[static_cast<size_t>(at)] = index.size(at);
  return expand(own).gather(at, index.expand(its));
}

}  // namespace quern
