// Views: what moves values and computes none.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/size_conditions.h"
#include "quern/tensor/core/support.h"

namespace quern {

using detail::at_least_0, detail::value_now;
using detail::difference, detail::product, detail::resolve_axis, detail::sum_of;

Tensor Tensor::reshape(const Shape& shape) const {
  Shape sizes = shape;
  const UOp u = uop();
  const auto open = std::ranges::count(sizes, Dim(-1));
  if (open > 1) throw ShapeError(fmt::format("reshape: more than one -1 in {}", shape_text(shape)));
  if (open == 1) {
    UOps others;
    for (const Dim& d : sizes)
      if (d != Dim(-1)) others.push_back(d.uop());
    const UOp all = elements_in(u.shape()), rest = elements_in(others);
    if (rest.equals(0) || (all.is_const() && rest.is_const() && all.int_value() % rest.int_value() != 0))
      throw ShapeError(
          fmt::format("reshape: {} to {}: -1 stands for no size", shape_text(u.shape()), shape_text(shape)));
    *std::ranges::find(sizes, Dim(-1)) = Dim(all / rest);
  }
  detail::checked_shape("reshape", sizes);
  const UOp before = elements_in(u.shape()), after = elements_in(sizes_of(sizes));
  if (!same(before, after)) {
    const auto text = [&] {
      return fmt::format("reshape: {} has {} elements, {} has {}", shape_text(u.shape()), Dim(before).text(),
                         shape_text(shape), Dim(after).text());
    };
    const UOp more = (before - after).simplify();
    if (const std::optional<wide> now = value_now(more); now && *now != 0) throw ShapeError(text());
    detail::note_not_negative(more, text);
    detail::note_not_negative(-more, text);
  }
  return seen_as(quern::reshape(u, sizes_of(sizes)));
}

Tensor Tensor::expand(const Shape& shape) const {
  const Shape own = this->shape();
  if (own.size() > shape.size())
    throw ShapeError(fmt::format("expand: {} has more axes than {}", shape_text(own), shape_text(shape)));
  Shape sizes = shape;
  const size_t front = shape.size() - own.size();
  for (size_t i = 0; i < sizes.size(); i++)
    if (sizes[i] == Dim(-1)) sizes[i] = i < front ? Dim(1) : own[i - front];
  return detail::broadcast_to("expand", *this, detail::checked_shape("expand", sizes));
}
Tensor Tensor::broadcast_to(const Shape& shape) const {
  return detail::broadcast_to("broadcast_to", *this, detail::checked_shape("broadcast_to", shape));
}

Tensor Tensor::permute(const Ints& order) const {
  const int64_t n = ndim();
  if (std::ssize(order) != n)
    throw ShapeError(fmt::format("permute: [{}] names {} axes of {}", fmt::join(order, ", "), order.size(),
                                 shape_text(shape())));
  Ints axes;
  for (const int64_t axis : order) axes.push_back(resolve_axis("permute", axis, n));
  (void)detail::resolve_axes("permute", axes, n);  // none twice
  return seen_as(quern::permute(uop(), axes));
}

Tensor Tensor::transpose(int64_t a, int64_t b) const {
  const int64_t n = ndim();
  Ints order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(resolve_axis("transpose", a, n))],
            order[static_cast<size_t>(resolve_axis("transpose", b, n))]);
  return permute(order);
}
Tensor Tensor::T() const { return ndim() < 2 ? *this : transpose(0, 1); }

Tensor Tensor::flatten(int64_t start, int64_t end) const {
  const Shape own = shape();
  if (own.empty()) return reshape({1});
  const int64_t first = resolve_axis("flatten", start, ndim()), last = resolve_axis("flatten", end, ndim());
  if (first > last)
    throw ShapeError(fmt::format("flatten: the first axis {} is behind the last {}", start, end));
  Shape sizes(own.begin(), own.begin() + first);
  Dim joined = 1;
  for (int64_t i = first; i <= last; i++) joined = product(joined, own[static_cast<size_t>(i)]);
  sizes.push_back(joined);
  sizes.insert(sizes.end(), own.begin() + last + 1, own.end());
  return reshape(sizes);
}

Tensor Tensor::unflatten(int64_t axis, const Shape& sizes) const {
  Shape own = shape();
  const int64_t at = resolve_axis("unflatten", axis, ndim());
  Tensor parts = Tensor(quern::full(sizes_of({own[static_cast<size_t>(at)]}), UOp::boolean(false)))
                     .reshape(sizes);  // checks, finds -1
  const Shape split = parts.shape();
  own.erase(own.begin() + at);
  own.insert(own.begin() + at, split.begin(), split.end());
  return reshape(own);
}

Tensor Tensor::squeeze(std::optional<int64_t> axis) const {
  Shape sizes = shape();
  if (!axis) {
    std::erase(sizes, Dim(1));
    return reshape(sizes);
  }
  if (sizes.empty() && (*axis == 0 || *axis == -1)) return *this;
  const int64_t at = resolve_axis("squeeze", *axis, ndim());
  if (sizes[static_cast<size_t>(at)] == Dim(1)) sizes.erase(sizes.begin() + at);
  return reshape(sizes);
}

Tensor Tensor::unsqueeze(int64_t axis) const {
  Shape sizes = shape();
  sizes.insert(sizes.begin() + resolve_axis("unsqueeze", axis, ndim() + 1), Dim(1));
  return reshape(sizes);
}

Tensor Tensor::shrink(const std::vector<std::optional<std::pair<Dim, Dim>>>& bounds) const {
  const Shape own = shape();
  if (bounds.size() != own.size())
    throw ShapeError(
        fmt::format("shrink: {} bounds for the {} axes of {}", bounds.size(), own.size(), shape_text(own)));
  UOps offsets, sizes;
  for (size_t i = 0; i < own.size(); i++) {
    if (!bounds[i]) {
      offsets.push_back(UOp::index(0)), sizes.push_back(own[i].uop());
      continue;
    }
    const auto& [begin, end] = *bounds[i];
    const Dim size = difference(end, begin);
    // What holds for the values that variables have now is enough: others may be less than 0 here, and are 0.
    const auto may_be_negative = [](const UOp& number) {
      if (number.vmin() >= 0) return false;
      const std::optional<wide> now = value_now(number);
      return !now || *now < 0;
    };
    const Dim behind = difference(own[i], end);
    const std::optional<wide> rest = value_now(behind.uop());
    const auto text = [&] {
      return fmt::format("shrink: axis {} is {} long, asked for [{}, {})", i, own[i].text(), begin.text(),
                         end.text());
    };
    if (may_be_negative(begin.uop()) || may_be_negative(size.uop()) ||
        (rest ? *rest < 0 : end.uop().vmin() > own[i].uop().vmax()))
      throw ShapeError(text());
    for (const Dim& number : {begin, size, behind}) detail::note_not_negative(number.uop(), text);
    offsets.push_back(at_least_0(begin.uop())), sizes.push_back(at_least_0(size.uop()));
  }
  return seen_as(quern::shrink(uop(), offsets, sizes));
}

Tensor Tensor::pad_axes(const std::vector<std::pair<Dim, Dim>>& padding, const Operand& value) const {
  const Shape own = shape();
  if (padding.size() != own.size())
    throw ShapeError(
        fmt::format("pad: {} pairs for the {} axes of {}", padding.size(), own.size(), shape_text(own)));
  std::vector<std::optional<std::pair<Dim, Dim>>> kept(own.size());  // negative padding takes away
  std::vector<std::pair<Dim, Dim>> added = padding;
  bool takes_away = false;
  for (size_t i = 0; i < own.size(); i++) {
    auto& [before, after] = added[i];
    if (before.uop().vmin() >= 0 && after.uop().vmin() >= 0) continue;
    const UOp begin = at_least_0(-before.uop()), end = at_least_0(-after.uop());
    const UOp left = (own[i].uop() - begin - end).simplify();
    const auto text = [&] {
      return fmt::format("pad: ({}, {}) takes more than the {} elements of axis {}", before.text(),
                         after.text(), own[i].text(), i);
    };
    if (const std::optional<wide> now = value_now(left); now ? *now < 0 : left.vmin() < 0)
      throw ShapeError(text());
    detail::note_not_negative(left, text);
    kept[i] = {Dim(begin), difference(own[i], Dim(end))};
    before = Dim(at_least_0(before.uop())), after = Dim(at_least_0(after.uop()));
    takes_away = true;
  }
  if (takes_away) {
    const Tensor padded = shrink(kept).pad_axes(added, value);
    // Their sum is what it is for all values of variables, also where a part of it is not.
    Shape sizes = padded.shape();
    for (size_t i = 0; i < own.size(); i++)
      if (const Dim size = sum_of(sum_of(padding[i].first, own[i]), padding[i].second);
          size.uop().vmin() >= 0)
        sizes[i] = size;
    return same_sizes(sizes_of(sizes), padded.uop().shape()) ? padded : padded.reshape(sizes);
  }
  UOps offsets;
  Shape sizes;
  bool none = true;
  for (size_t i = 0; i < own.size(); i++) {
    const auto& [before, after] = padding[i];
    none = none && before == Dim(0) && after == Dim(0);
    offsets.push_back(before.uop());
    sizes.push_back(sum_of(sum_of(before, own[i]), after));
  }
  if (none) return detail::own_value(*this);
  detail::checked_shape("pad", sizes);
  Tensor padded(quern::pad(uop(), offsets, sizes_of(sizes)));
  if (!value.is_tensor()) {
    const DType promoted = value.is_held_by(dtype()) ? dtype() : value.dtype_beside(dtype());
    if (value.constant(promoted).value() == make_const(promoted, 0)) return padded;
    if (promoted != dtype()) return cast(promoted).pad_axes(padding, value);
  }
  const Tensor inside(quern::pad(quern::full(sizes_of(own), UOp::boolean(true)), offsets, sizes_of(sizes)));
  return inside.where(padded,
                      value.is_tensor() ? value.tensor().cast(dtype()) : detail::number(value, dtype(), {}));
}

Tensor Tensor::shrink_to(const std::vector<std::optional<Dim>>& sizes) const {
  std::vector<std::optional<std::pair<Dim, Dim>>> bounds;
  bounds.reserve(sizes.size());
  for (const auto& s : sizes) bounds.push_back(s ? std::optional(std::pair(Dim(0), *s)) : std::nullopt);
  return shrink(bounds);
}
Tensor Tensor::pad_to(const std::vector<std::optional<Dim>>& sizes) const {
  const Shape own = shape();
  if (sizes.size() != own.size())
    throw ShapeError(
        fmt::format("pad_to: {} sizes for the {} axes of {}", sizes.size(), own.size(), shape_text(own)));
  std::vector<std::pair<Dim, Dim>> padding;
  for (size_t i = 0; i < own.size(); i++) {
    const Dim more = sizes[i] ? difference(*sizes[i], own[i]) : Dim(0);
    const std::optional<wide> now = value_now(more.uop());
    const auto text = [&] {
      return fmt::format("pad_to: axis {} is {} long, more than {}", i, own[i].text(), sizes[i]->text());
    };
    if (now ? *now < 0 : more.uop().vmin() < 0) throw ShapeError(text());
    detail::note_not_negative(more.uop(), text);
    padding.emplace_back(Dim(0), more);
  }
  return pad_axes(padding, 0);
}

Tensor Tensor::flip(const Axes& axes) const {
  return seen_as(quern::flip(uop(), detail::resolve_axes("flip", axes, ndim())));
}

Tensor Tensor::roll(const IntList& shifts, const Axes& axes) const {
  if (!axes.given()) {
    if (shifts.values().size() != 1) throw ValueError("roll: several shifts need as many axes");
    return flatten().roll(shifts, 0).reshape(shape());
  }
  if (shifts.values().size() != axes.values().size())
    throw ValueError(
        fmt::format("roll: {} shifts for {} axes", shifts.values().size(), axes.values().size()));
  Tensor x = *this;
  for (size_t i = 0; i < axes.values().size(); i++) {
    const int64_t axis = resolve_axis("roll", axes.values()[i], ndim());
    const Dim n = x.size(axis);
    if (n == Dim(0)) continue;
    const Dim some = n.uop().vmin() < 1 ? Dim(quern::max(n.uop(), n.uop().const_like(1))) : n;
    const Dim rest =
        Dim(shifts.values()[i] % (int64_t{1} << 62)) * Dim(-1) % some;  // where the first element comes from
    if (rest == Dim(0)) continue;
    std::vector<std::optional<std::pair<Dim, Dim>>> tail(static_cast<size_t>(ndim())), head = tail;
    if (n.is_symbolic()) {  // of the axis twice: that what is behind and before it are the axis cannot be
                            // seen
      tail[static_cast<size_t>(axis)] = {rest, sum_of(rest, n)};
      x = cat({x, x}, axis).shrink(tail);
      continue;
    }
    tail[static_cast<size_t>(axis)] = {rest, n}, head[static_cast<size_t>(axis)] = {0, rest};
    x = cat({x.shrink(tail), x.shrink(head)}, axis);
  }
  return detail::own_value(x, *this);
}

Tensor Tensor::repeat(const Ints& repeats) const {
  Shape own = shape();
  if (repeats.size() < own.size())
    throw ShapeError(
        fmt::format("repeat: {} numbers for the {} axes of {}", repeats.size(), own.size(), shape_text(own)));
  own.insert(own.begin(), repeats.size() - own.size(), Dim(1));
  Shape spread, expanded, joined;
  for (size_t i = 0; i < own.size(); i++) {
    if (repeats[i] < 0) throw ShapeError(fmt::format("repeat: {} times; it must be 0 or more", repeats[i]));
    spread.insert(spread.end(), {Dim(1), own[i]});
    expanded.insert(expanded.end(), {Dim(repeats[i]), own[i]});
    joined.push_back(product(repeats[i], own[i]));
  }
  return detail::own_value(reshape(spread).expand(expanded).reshape(detail::checked_shape("repeat", joined)),
                           *this);
}

Tensor Tensor::repeat_interleave(int64_t repeats, std::optional<int64_t> axis) const {
  if (repeats < 0)
    throw ShapeError(fmt::format("repeat_interleave: {} times; it must be 0 or more", repeats));
  if (!axis) return flatten().repeat_interleave(repeats, 0);
  const int64_t at = resolve_axis("repeat_interleave", *axis, ndim());
  Shape spread = shape(), expanded = shape(), joined = shape();
  spread.insert(spread.begin() + at + 1, Dim(1));
  expanded.insert(expanded.begin() + at + 1, Dim(repeats));
  joined[static_cast<size_t>(at)] = product(joined[static_cast<size_t>(at)], repeats);
  return detail::own_value(
      reshape(spread).expand(expanded).reshape(detail::checked_shape("repeat_interleave", joined)), *this);
}

}  // namespace quern
