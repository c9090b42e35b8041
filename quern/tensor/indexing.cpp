// x.at({...}) and x.set({...}, value).
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ranges>

#include "quern/ir/movement.h"
#include "quern/tensor/assign.h"
#include "quern/tensor/gather.h"
#include "quern/tensor/support.h"

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

Tensor take_slice(const Tensor& x, int64_t axis, const Slice& s) {
  const Dim size = x.size(axis);
  const bool symbolic =
      size.is_symbolic() || (s.start && s.start->is_symbolic()) || (s.stop && s.stop->is_symbolic());
  if (!s.start && !s.stop && s.step == 1) return x;
  if (!symbolic) return take_range(x, axis, resolve(s, size.value()));
  if (s.step != 1) throw ShapeError("index: a slice of symbolic size has a step other than 1");
  auto from_front = [&](const Dim& d) {
    return !d.is_symbolic() && d.value() < 0 ? detail::sum_of(size, d) : d;
  };
  const Dim begin = s.start ? from_front(*s.start) : Dim(0), end = s.stop ? from_front(*s.stop) : size;
  return take(x, axis, begin, end);
}

// `own`: the number that the axis has for the user.
Tensor take_one(const Tensor& x, int64_t axis, const Dim& i, int64_t own) {
  const Dim size = x.size(axis);
  Dim at = i;
  if (!i.is_symbolic() && !size.is_symbolic()) {
    if (i.value() < -size.value() || i.value() >= size.value())
      throw IndexError(
          fmt::format("index {} is out of bounds for axis {} of size {}", i.value(), own, size.value()));
    if (i.value() < 0) at = i.value() + size.value();
  } else if (!i.is_symbolic() && i.value() < 0) {
    at = detail::sum_of(size, i);
  }
  const UOp& number = at.uop().op() == Op::BIND ? at.uop().src(1) : at.uop();
  if (number.vmin() < 0 || number.vmin() >= size.uop().vmax())
    throw IndexError(
        fmt::format("index {} is out of bounds for axis {} of size {}", text(i), own, text(size)));
  return take(x, axis, at, detail::sum_of(at, 1));
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

}  // namespace

Tensor Tensor::at(const std::vector<Index>& indices) const {
  return picked(*this, normalized(*this, indices));
}

Tensor Tensor::set(const std::vector<Index>& indices, const Operand& value) const {
  const std::vector<Index> list = normalized(*this, indices);
  auto fitting = [&](const Shape& shape) { return detail::to_write("set", value, dtype(), shape); };
  if (!only_views(list)) {
    // The places that are written, as numbers; of several values for one place the last one stays. An index
    // that is out of range picks 0, which is no number here: it becomes a place that is not there.
    const Tensor numbers = (detail::iota(numel(), dtypes::int64) + 1).reshape(shape());
    const Tensor found = picked(numbers, list);
    const Tensor places = found.eq(0).where(std::numeric_limits<int64_t>::max(), found - 1);
    const Tensor source = fitting(places.shape());
    return assign(flatten().scatter(0, places.flatten(), source.flatten()).reshape(shape()));
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
