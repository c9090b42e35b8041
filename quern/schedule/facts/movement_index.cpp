#include "quern/schedule/facts/movement_index.h"

#include <algorithm>

#include "quern/base/error.h"
#include "quern/ir/node/const.h"
#include "quern/ir/shape/movement.h"

namespace quern {
namespace {

const UOp& zero() {
  static const auto* const z = new UOp(UOp::index(0));  // NOLINT: never destroyed
  return *z;
}

// Sizes are numbers, nearly always.
UOp product(const UOp& a, const UOp& b) {
  if (a.equals(1)) return b;
  if (a.is_int_const() && b.is_int_const()) {
    const wide both = a.int_value() * b.int_value();
    if (fits(dtypes::index, both)) return UOp::index(static_cast<int64_t>(both));
  }
  return (a * b).simplify();
}

// `flat` cut into an index for each of the sizes.
void split(const UOp& flat, Sources sizes, UOps& into) {
  UOp stride = UOp::index(1);
  UOps parts(sizes.size());
  size_t outermost = 0;
  while (outermost < sizes.size() && sizes[outermost].equals(1)) outermost++;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i].equals(1)) {
      parts[i] = zero();
      continue;
    }
    UOp part = stride.equals(1) ? flat : flat / stride;
    if (i != outermost) part = part % sizes[i];
    parts[i] = part.simplify();
    stride = product(stride, sizes[i]);
  }
  into.insert(into.end(), parts.begin(), parts.end());
}

bool all_const(Sources sizes) {
  return std::ranges::all_of(sizes, [](const UOp& s) { return s.is_int_const(); });
}

// Axes that a reshape leaves alone, and groups of axes that it cuts anew, from the left. Sizes of 1 belong
// anywhere.
UOps through_reshape(Sources from, Sources to, Sources index) {
  if (std::ranges::any_of(from, [](const UOp& s) { return s.equals(0); }))
    return UOps(from.size(), zero());  // nothing is read
  if (!all_const(from) || !all_const(to)) {
    // Symbolic sizes: axes at the front and at the back that are the same stay, the rest is cut anew.
    size_t front = 0, back = 0;
    while (front < from.size() && front < to.size() && same(from[front], to[front])) front++;
    while (back + front < from.size() && back + front < to.size() &&
           same(from[from.size() - 1 - back], to[to.size() - 1 - back]))
      back++;
    UOps result(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(front));
    const size_t given = to.size() - front - back, wanted = from.size() - front - back;
    split(flat_index(index.subspan(front, given), to.subspan(front, given)), from.subspan(front, wanted),
          result);
    result.insert(result.end(), index.end() - static_cast<std::ptrdiff_t>(back), index.end());
    return result;
  }
  UOps result;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    const size_t first_from = i, first_to = j;
    wide a = 1, b = 1;
    if (i < from.size()) a = from[i++].int_value();
    if (j < to.size()) b = to[j++].int_value();
    while (a != b) {
      if (a < b ? i < from.size() : j >= to.size())
        a *= from[i++].int_value();
      else
        b *= to[j++].int_value();
    }
    const Sources sizes = from.subspan(first_from, i - first_from);
    const Sources given = index.subspan(first_to, j - first_to), whole = to.subspan(first_to, j - first_to);
    if (sizes.size() == 1 && given.size() == 1)
      result.push_back(given[0]);
    else
      split(flat_index(given, whole), sizes, result);
  }
  return result;
}

}  // namespace

UOp flat_index(Sources index, Sources sizes) {
  UOp sum, stride = UOp::index(1);
  for (size_t i = index.size(); i-- > 0;) {
    if (!sizes[i].equals(1)) {
      UOp term = stride.equals(1) ? index[i] : index[i] * stride;
      sum = sum ? term + sum : term;
      stride = product(stride, sizes[i]);
    }
  }
  return sum ? sum.simplify() : zero();
}

SourceIndex source_index(const UOp& movement, Sources index) {
  const UOps& from = movement.src(0).shape();
  const Sources given = movement.src().subspan(1);
  UOps result(index.begin(), index.end());
  switch (movement.op()) {
    case Op::RESHAPE: return {through_reshape(from, movement.shape(), index), {}};
    case Op::PERMUTE: {
      const Ints& order = movement.arg().ints();
      for (size_t i = 0; i < order.size(); i++) result[static_cast<size_t>(order[i])] = index[i];
      return {std::move(result), {}};
    }
    case Op::EXPAND:
      for (size_t i = 0; i < result.size(); i++)
        if (from[i].equals(1)) result[i] = zero();
      return {std::move(result), {}};
    case Op::FLIP:
      for (int64_t axis : movement.arg().ints()) {
        const auto i = static_cast<size_t>(axis);
        result[i] = (from[i] - 1 - index[i]).simplify();
      }
      return {std::move(result), {}};
    case Op::SHRINK:
      for (size_t i = 0; i < result.size(); i++)
        if (!given[i].equals(0)) result[i] = (index[i] + given[i]).simplify();
      return {std::move(result), {}};
    case Op::PAD: {
      UOp valid;
      for (size_t i = 0; i < result.size(); i++) {
        const UOp &offset = given[i], &size = from[i], &padded = given[given.size() / 2 + i];
        if (same(size, padded)) continue;
        UOp inside = UOp::boolean(true);
        if (!offset.equals(0)) inside = inside & (index[i] >= offset);
        inside = (inside & (index[i] < offset + size)).simplify();
        const UOp place = (index[i] - offset).simplify();
        result[i] = where(inside, place, UOp::invalid()).simplify();
        valid = valid ? (valid & inside).simplify() : inside;
      }
      return {std::move(result), valid};
    }
    default: check_failed("a movement op", __FILE__, __LINE__, movement.text());
  }
}

}  // namespace quern
