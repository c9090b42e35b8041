// x.at({...}) and x.set({...}, value).
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ranges>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/disk.h"
#include "quern/tensor/core/size_conditions.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/indexing/gather.h"
#include "quern/tensor/indexing/places.h"

namespace quern {
namespace {

using Part = std::optional<std::pair<Dim, Dim>>;

std::string text(const Dim& d) { return d.text(); }

// ---- One slice of an axis of known size, as Python has it.

struct Range {
  int64_t begin, count, step;  // begin is the lowest index taken; step is positive
  bool reversed;
};

Range resolve(const Slice& s, int64_t size) {
  if (s.step == 0) throw ValueError("index: a slice with step 0");
  auto bound = [&](const std::optional<Dim>& given, int64_t none, int64_t least, int64_t most) {
    if (!given) return none;
    const int64_t v = given->value();
    return std::clamp(v < 0 ? v + size : v, least, most);
  };
  if (s.step > 0) {
    const int64_t start = bound(s.start, 0, 0, size), stop = bound(s.stop, size, 0, size);
    const int64_t count = stop > start ? (stop - start - 1) / s.step + 1 : 0;
    return {start, count, s.step, false};
  }
  if (s.step == std::numeric_limits<int64_t>::min())
    throw ValueError(fmt::format("index: a slice with step {}", s.step));
  const int64_t step = -s.step, start = bound(s.start, size - 1, -1, size - 1),
                stop = bound(s.stop, -1, -1, size - 1);
  const int64_t count = start > stop ? (start - stop - 1) / step + 1 : 0;
  return {count == 0 ? 0 : start - (count - 1) * step, count, step, true};
}

Tensor take(const Tensor& x, int64_t axis, const Dim& begin, const Dim& end) {
  std::vector<Part> bounds(static_cast<size_t>(x.ndim()));
  bounds[static_cast<size_t>(axis)] = {begin, end};
  return x.shrink(bounds);
}

// Every step-th element of what begins at `begin`. The rows of `step` elements are padded only where they
// must be: a padded view cannot be written through.
Tensor take_range(const Tensor& x, int64_t axis, const Range& r) {
  const auto at = static_cast<size_t>(axis);
  const int64_t size = x.size(axis).value();
  if (r.count == 0) return take(x, axis, 0, 0);
  Tensor y = x;
  if (r.step == 1 || r.count == 1) {
    y = take(x, axis, r.begin, r.begin + r.count);
  } else {
    // Rows may begin before the first element, if there is room there but none behind the last.
    const int64_t whole = r.count * r.step,
                  lead = std::min(r.begin, std::max<int64_t>(r.begin + whole - size, 0));
    const int64_t end = std::min(size, r.begin - lead + whole);
    y = take(x, axis, r.begin - lead, end);
    Shape rows = y.shape();
    if (end - (r.begin - lead) < whole) {
      rows[at] = whole;
      y = y.seen_as(pad_unseen(y.uop(), sizes_of(rows)));
    }
    rows[at] = r.count;
    rows.insert(rows.begin() + axis + 1, Dim(r.step));
    y = take(y.reshape(rows), axis + 1, lead, lead + 1);
    rows.erase(rows.begin() + axis + 1);
    y = y.reshape(rows);
  }
  return r.reversed ? y.flip(axis) : y;
}

// A place on an axis, where that or the axis is of symbolic size: negative ones count from the end.
UOp from_front(const Dim& given, const Dim& size) {
  const UOp& at = given.uop();
  if (at.vmin() >= 0) return at;
  const UOp counted = (size.uop() + at).simplify();
  return at.vmax() < 0 ? counted : where(at < 0, counted, at).simplify();
}

// Where a slice begins or ends, between 0 and the size. What fits for the values that variables have now is
// left as it is said, so that sizes that are said alike are the same.
UOp bound(const Dim& given, const Dim& size) {
  const UOp at = detail::at_least_0(from_front(given, size));
  const std::optional<wide> room = detail::value_now((size.uop() - at).simplify());
  return room && *room < 0 ? min(at, size.uop()).simplify() : at;
}

// A slice of an axis of symbolic size, or with symbolic bounds.
Tensor take_symbolic(const Tensor& x, int64_t axis, const Slice& s) {
  if (s.step == 0) throw ValueError("index: a slice with step 0");
  if (s.step == std::numeric_limits<int64_t>::min())
    throw ValueError(fmt::format("index: a slice with step {}", s.step));
  const Dim size = x.size(axis);
  const bool backward = s.step < 0;
  UOp begin = UOp::index(0), end = size.uop();
  if (!backward) {
    if (s.start) begin = bound(*s.start, size);
    if (s.stop) end = bound(*s.stop, size);
  } else {  // from behind: what lies behind `stop`, up to `start`
    const auto behind = [&](const Dim& d) {
      const UOp at = (from_front(d, size) + 1).simplify();  // in front of the axis it is 0
      return bound(Dim(detail::at_least_0(at)), size);
    };
    if (s.stop) begin = behind(*s.stop);
    if (s.start) end = behind(*s.start);
  }
  if (const std::optional<wide> count = detail::value_now((end - begin).simplify()); count && *count < 0)
    end = max(end, begin).simplify();
  Tensor y = take(x, axis, Dim(begin), Dim(end));
  if (backward) y = y.flip(axis);
  const int64_t step = backward ? -s.step : s.step;
  if (step == 1) return y;
  // In rows of `step` elements, of which the first is taken.
  const auto at = static_cast<size_t>(axis);
  const Dim length = y.size(axis), count = detail::ceil_div(length, step);
  std::vector<std::pair<Dim, Dim>> behind(static_cast<size_t>(y.ndim()), {Dim(0), Dim(0)});
  behind[at].second = Dim(detail::at_least_0((count.uop() * step - length.uop())));
  Shape rows = y.shape();
  rows[at] = detail::product(count, step);
  y = y.pad_axes(behind, 0).reshape(rows);
  rows[at] = count;
  rows.insert(rows.begin() + axis + 1, Dim(step));
  y = take(y.reshape(rows), axis + 1, 0, 1);
  rows.erase(rows.begin() + axis + 1);
  return y.reshape(rows);
}

Tensor take_slice(const Tensor& x, int64_t axis, const Slice& s) {
  const Dim size = x.size(axis);
  const bool symbolic =
      size.is_symbolic() || (s.start && s.start->is_symbolic()) || (s.stop && s.stop->is_symbolic());
  if (!s.start && !s.stop && s.step == 1) return x;
  return symbolic ? take_symbolic(x, axis, s) : take_range(x, axis, resolve(s, size.value()));
}

// `own`: the number that the axis has for the user.
Tensor take_one(const Tensor& x, int64_t axis, const Dim& i, int64_t own) {
  const Dim size = x.size(axis);
  const UOp at = from_front(i, size);
  const UOp behind = (size.uop() - at - 1).simplify();
  const auto outside = [&] {
    const std::optional<wide> place = detail::value_now(at), more = detail::value_now(behind);
    if (place && more) return *place < 0 || *more < 0;
    return at.vmax() < 0 || at.vmin() >= size.uop().vmax();
  };
  const auto message = [&] {
    return fmt::format("index {} is out of bounds for axis {} of size {}", text(i), own, text(size));
  };
  if (outside()) throw IndexError(message());
  detail::note_not_negative(at, message);
  detail::note_not_negative(behind, message);
  const Dim place(detail::at_least_0(at));
  return take(x, axis, place, detail::sum_of(place, 1));
}

// ---- All indices

// Masks become lists of places, the ellipsis as many full slices as are missing.
std::vector<Index> normalized(const Tensor& x, const std::vector<Index>& indices) {
  int64_t total = 0;  // axes that are indexed
  for (const Index& index : indices) {
    const auto* t = std::get_if<Tensor>(&index.value);
    if (t && t->dtype().is_bool())
      total += t->ndim();
    else if (!std::holds_alternative<NewAxis>(index.value) && !std::holds_alternative<Ellipsis>(index.value))
      total++;
  }
  if (total > x.ndim())
    throw IndexError(
        fmt::format("index: {} indices for the {} axes of {}", total, x.ndim(), shape_text(x.shape())));
  std::vector<Index> list;
  int64_t used = 0;  // axes in front of the next index
  std::optional<size_t> gap;
  for (const Index& index : indices) {
    if (std::holds_alternative<Ellipsis>(index.value)) {
      if (gap) throw IndexError("index: more than one ellipsis");
      gap = list.size();
      used += x.ndim() - total;
      continue;
    }
    const auto* t = std::get_if<Tensor>(&index.value);
    if (t && t->dtype().is_bool()) {
      const int64_t n = t->ndim();
      if (n == 0) throw IndexError("index: a mask needs at least one axis");
      for (int64_t a = 0; a < n; a++)
        if (!detail::same_dims(t->size(a), x.size(used + a)))
          throw IndexError(fmt::format("index: a mask of shape {} does not fit axis {} of {}",
                                       shape_text(t->shape()), used + a, shape_text(x.shape())));
      const Tensor places = t->nonzero();
      for (int64_t a = 0; a < n; a++) list.emplace_back(take(places, 1, a, a + 1).squeeze(1));
      used += n;
      continue;
    }
    if (t && !t->dtype().is_int())
      throw IndexError(
          fmt::format("index: a tensor of {}; indices are integers or bools", t->dtype().name()));
    if (!std::holds_alternative<NewAxis>(index.value)) used++;
    list.push_back(index);
  }
  const size_t at = gap.value_or(list.size());
  list.insert(list.begin() + static_cast<int64_t>(at), static_cast<size_t>(x.ndim() - total), Index(Slice{}));
  return list;
}

bool only_views(const std::vector<Index>& indices) {
  return std::ranges::none_of(indices,
                              [](const Index& i) { return std::holds_alternative<Tensor>(i.value); });
}

Tensor picked(const Tensor& x, const std::vector<Index>& list) {
  Tensor y = x;
  std::vector<std::pair<int64_t, Tensor>> tensors;  // axis of the result so far
  int64_t axis = 0, own = 0;
  for (const Index& index : list) {
    if (const auto* i = std::get_if<Dim>(&index.value)) {
      y = take_one(y, axis, *i, own);
      Shape without = y.shape();
      without.erase(without.begin() + axis);
      y = y.reshape(without);
    } else if (const auto* s = std::get_if<Slice>(&index.value)) {
      y = take_slice(y, axis++, *s);
    } else if (std::holds_alternative<NewAxis>(index.value)) {
      y = y.unsqueeze(axis++);
    } else {
      tensors.emplace_back(axis++, std::get<Tensor>(index.value));
    }
    if (!std::holds_alternative<NewAxis>(index.value)) own++;
  }
  return tensors.empty() ? y : detail::gather_axes(y, tensors);
}

bool is_full(const Index& index) {
  const auto* s = std::get_if<Slice>(&index.value);
  return std::holds_alternative<Ellipsis>(index.value) || (s && !s->start && !s->stop && s->step == 1);
}

// Of x[mask] = number with nothing else between the brackets: the mask, to be broadcast against x.
std::optional<Tensor> only_mask(const Tensor& x, const std::vector<Index>& indices) {
  std::optional<Tensor> mask;
  int64_t before = 0, behind = 0;
  bool gap = false;  // an ellipsis in front of the mask
  for (const Index& index : indices) {
    const auto* t = std::get_if<Tensor>(&index.value);
    if (t && !mask && t->dtype().is_bool() && t->ndim() > 0)
      mask = *t;
    else if (!is_full(index))
      return {};
    else if (std::holds_alternative<Ellipsis>(index.value))
      gap = gap || !mask;
    else
      (mask ? behind : before)++;
  }
  if (!mask) return {};
  const int64_t first = gap ? x.ndim() - mask->ndim() - behind : before;
  if (first < before || first + mask->ndim() + behind > x.ndim()) return {};
  Shape shape = mask->shape();
  for (size_t a = 0; a < shape.size(); a++)
    if (!detail::same_dims(shape[a], x.size(first + static_cast<int64_t>(a)))) return {};
  shape.insert(shape.end(), static_cast<size_t>(x.ndim() - first - mask->ndim()), Dim(1));
  return mask->reshape(shape);
}

// The value as (outer, count, inner), each of which is 1 where the value is the same all along it; it is
// written as `shape`, whose axes [first, end) are those of the indices.
Tensor in_three(const Tensor& value, const Shape& shape, size_t first, size_t end) {
  Shape own(shape.size() - static_cast<size_t>(value.ndim()), Dim(1)), three;
  for (const Dim& d : value.shape()) own.push_back(d);
  Shape wanted = own;
  const size_t bounds[] = {0, first, end, shape.size()};
  for (size_t g = 0; g < 3; g++) {
    const bool one = std::all_of(own.begin() + static_cast<std::ptrdiff_t>(bounds[g]),
                                 own.begin() + static_cast<std::ptrdiff_t>(bounds[g + 1]),
                                 [](const Dim& d) { return d == Dim(1); });
    Dim size = 1;
    for (size_t a = bounds[g]; a < bounds[g + 1] && !one; a++) {
      wanted[a] = shape[a];
      size = detail::product(size, shape[a]);
    }
    three.push_back(size);
  }
  return value.reshape(own).expand(wanted).reshape(three);
}

// For each element that the indices pick its place in x, all axes counted as one; one that is out of range is
// no place, nor is it one counted from the end.
Tensor places_in_order(const Tensor& x, const std::vector<Index>& list) {
  // In the order of the result: places along the axis, times how far they are apart; none for a new axis.
  std::vector<std::optional<Tensor>> kept;
  std::vector<Tensor> tensors, strides;
  std::vector<Dim> sizes;
  size_t first = 0;  // axes kept in front of the first tensor
  bool neighbours = true;
  Tensor all = detail::number(0, dtypes::int64, {}), inside = detail::number(true, dtypes::bool_, {});
  std::vector<Index> without = list;
  for (Index& index : without)
    if (std::holds_alternative<Tensor>(index.value)) index = Slice{};
  (void)picked(x, without);  // integers that are out of bounds are an error
  std::optional<size_t> last;
  int64_t own = 0;
  for (const Index& index : list) {
    if (std::holds_alternative<NewAxis>(index.value)) {
      kept.emplace_back();
      continue;
    }
    const Dim size = x.size(own), stride = detail::places_of_axes(x, own, 1).inner;
    own++;
    const Tensor step = Tensor::from_dim(stride, dtypes::int64);
    if (const auto* t = std::get_if<Tensor>(&index.value)) {
      if (tensors.empty()) first = kept.size();
      neighbours &= !last || *last == kept.size();
      last = kept.size();
      tensors.push_back(*t);
      strides.push_back(step);
      sizes.push_back(size);
      continue;
    }
    const Tensor along = picked(detail::iota(size, dtypes::int64), {index}) * step;
    if (along.ndim() == 0)
      all = all + along;
    else
      kept.emplace_back(along);
  }
  if (!neighbours) first = 0;
  const Shape together = detail::broadcast_shape("index", tensors);
  const size_t axes = kept.size() + together.size();
  auto spread = [&](const Tensor& t, size_t at) {
    const Shape own_sizes = t.shape();
    Shape shape(axes, Dim(1));
    for (size_t i = 0; i < own_sizes.size(); i++) shape[at + i] = own_sizes[i];
    return t.reshape(shape);
  };
  for (size_t i = 0; i < kept.size(); i++)
    if (kept[i]) all = all + spread(*kept[i], i < first ? i : i + together.size());
  for (size_t i = 0; i < tensors.size(); i++) {
    const Tensor index =
        spread(detail::broadcast_to("index", detail::wrapped(tensors[i], sizes[i]), together), first);
    inside = inside & index.ge(0) & index.lt(Tensor::from_dim(sizes[i], dtypes::int64));
    all = all + index * strides[i];
  }
  return inside.where(all, std::numeric_limits<int64_t>::min());
}

// x with the value where the indices say; of several values for one place the last one stays.
Tensor with_put(const Tensor& x, const std::vector<Index>& list, const Operand& value) {
  std::vector<std::pair<int64_t, Tensor>> tensors;
  bool simple = true;
  for (size_t i = 0; i < list.size(); i++) {
    if (const auto* t = std::get_if<Tensor>(&list[i].value)) {
      simple &= tensors.empty() || tensors.back().first + 1 == static_cast<int64_t>(i);
      tensors.emplace_back(i, *t);
    } else {
      simple &= is_full(list[i]);
    }
  }
  if (simple) {  // rows of x, of which each is what the indices pick together
    const int64_t first = tensors.front().first, axes = std::ssize(tensors);
    const Tensor index = detail::one_index(x, tensors);
    Shape shape = x.shape();
    shape.erase(shape.begin() + first, shape.begin() + first + axes);
    const Shape of_index = index.shape();
    shape.insert(shape.begin() + first, of_index.begin(), of_index.end());
    (void)detail::to_write("set", value, x.dtype(), shape);  // checks
    const Tensor plain = value.is_tensor() && value.tensor().ndim() <= std::ssize(shape)
                             ? detail::to_write("set", value, x.dtype(), value.tensor().shape())
                             : detail::to_write("set", value, x.dtype(), {});
    const auto f = static_cast<size_t>(first);
    const detail::PlacesOf of = detail::places_of_axes(x, first, axes);
    return detail::put("set", x.reshape({of.outer, of.places, of.inner}),
                       index.reshape({1, index.numel(), 1}), in_three(plain, shape, f, f + of_index.size()),
                       Op::NOOP)
        .reshape(x.shape());
  }
  const Tensor places = places_in_order(x, list);
  const Tensor source = detail::to_write("set", value, x.dtype(), places.shape());
  return x.flatten().scatter(0, places.flatten(), source.flatten()).reshape(x.shape());
}

}  // namespace

Tensor Tensor::at(const std::vector<Index>& indices) const {
  return picked(*this, normalized(*this, indices));
}

Tensor Tensor::set(const std::vector<Index>& indices, const Operand& value) const {
  if (!value.is_tensor() || value.tensor().ndim() == 0)
    if (const std::optional<Tensor> mask = only_mask(*this, indices))
      return assign(mask->where(detail::to_write("set", value, dtype(), {}), *this));
  const std::vector<Index> list = normalized(*this, indices);
  auto fitting = [&](const Shape& shape) { return detail::to_write("set", value, dtype(), shape); };
  if (!only_views(list)) {
    const UOp mine = uop();
    const Tensor before =
        detail::is_on_disk(mine) ? Tensor(detail::copied_from_disk(mine, default_device())) : *this;
    return assign(with_put(before, list, value));
  }
  const Tensor view = picked(*this, list);
  const Tensor written = fitting(view.shape());  // checks, before anything is changed
  if (view.numel() == Dim(0)) return *this;
  detail::share_memory("set", *this);
  if (!detail::has_memory(uop())) state()->set(detail::in_new_memory("set", *this).uop());
  detail::assign_view("set", picked(*this, list).uop(), written);
  return *this;
}

}  // namespace quern
