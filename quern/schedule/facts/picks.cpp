#include "quern/schedule/facts/picks.h"

#include <optional>
#include <vector>

#include "quern/ir/node/reduce.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/wanted.h"

namespace quern {
namespace {

constexpr size_t kMostConditions = 32;
constexpr int kDeepest = 64;  // ops between a comparison and what counts

// How a value changes along an axis.
enum class Along { nothing, counting, otherwise };

// The axis of the source of a movement op that this axis shows, element by element; none: several, or none.
std::optional<size_t> axis_below(const UOp& u, size_t axis) {
  const UOps &from = u.src(0).shape(), &to = u.shape();
  switch (u.op()) {
    case Op::PERMUTE: return static_cast<size_t>(u.arg().ints()[axis]);
    case Op::RESHAPE: {
      const UOp outside = elements_in(Sources(to).first(axis));
      for (size_t i = 0; i < from.size(); i++)
        if (same(from[i], to[axis]) && same(elements_in(Sources(from).first(i)), outside)) return i;
      return std::nullopt;
    }
    case Op::PAD: return same(from[axis], to[axis]) ? std::optional(axis) : std::nullopt;
    default: return axis;
  }
}

Along along(const UOp& value, size_t axis, int depth) {
  if (depth == kDeepest) return Along::otherwise;
  if (value.shape()[axis].equals(1)) return Along::nothing;
  if (value.op() == Op::IOTA) return Along::counting;
  if (is_movement(value.op())) {
    if (value.op() == Op::EXPAND && value.src(0).shape()[axis].equals(1)) return Along::nothing;
    const auto below = axis_below(value, axis);
    return below ? along(value.src(0), *below, depth + 1) : Along::otherwise;
  }
  if (value.op() == Op::NOOP || value.op() == Op::DETACH) return along(value.src(0), axis, depth + 1);
  if (!is_elementwise(value.op())) return Along::otherwise;
  int counting = 0;
  for (const UOp& s : value.src()) {
    const Along a = along(s, axis, depth + 1);
    if (a == Along::otherwise) return a;
    counting += a == Along::counting ? 1 : 0;
  }
  if (counting == 0) return Along::nothing;
  const bool linear =
      counting == 1 && OpSet{Op::CAST, Op::ADD, Op::SUB, Op::NEG, Op::MUL}.contains(value.op());
  return linear && value.dtype().is_int() ? Along::counting : Along::otherwise;
}

bool is_all_zeros(const UOp& x) {
  const UOp& base = base_of(x);
  return base.is_const() && !x.ops_below().contains(Op::PAD) && !base.value().is_invalid() &&
         (base.dtype().is_float() ? base.value().as_float() == 0 : base.equals(0));
}

// A value seen through movement ops, the outermost first.
struct Seen {
  const UOp* value;
  std::vector<const UOp*> views;

  Seen inside(const UOp& source) const { return {&source, views}; }
  Seen under_views() const {
    Seen result = *this;
    for (; is_movement(result.value->op()) || result.value->op() == Op::CAST;
         result.value = &result.value->src(0))
      if (result.value->op() != Op::CAST) result.views.push_back(result.value);
    return result;
  }
  // The axis of the value that is seen as this axis; none if there is no such axis.
  std::optional<size_t> axis(size_t axis) const {
    std::optional<size_t> at = axis;
    for (const UOp* view : views) {
      if (view->op() == Op::EXPAND && view->src(0).shape()[*at].equals(1)) return std::nullopt;
      at = axis_below(*view, *at);
      if (!at) return at;
    }
    return at;
  }
};

// The condition that makes an element of a sum 0 where it is false; none if there is none.
std::optional<Seen> condition_of(const UOp& summed) {
  const Seen seen = Seen{&summed, {}}.under_views();
  const UOp& u = *seen.value;
  if (u.dtype().is_bool()) return seen;
  if (u.op() == Op::WHERE && is_all_zeros(u.src(2))) return seen.inside(u.src(0));
  if (u.op() == Op::MUL)
    for (const UOp& factor : u.src())
      if (Seen f = seen.inside(factor).under_views(); f.value->dtype().is_bool()) return f;
  return std::nullopt;
}

}  // namespace

std::vector<Pick> picks_of(const UOp& reduce) {
  if (reduce.arg().reduce().op != Op::ADD || !reduce.ops_below().contains(Op::IOTA)) return {};
  const auto condition = condition_of(Reduction(reduce).value());
  if (!condition) return {};
  std::vector<Pick> picks;
  uint64_t found = 0;
  std::vector<Seen> stack{*condition};
  for (size_t looked = 0; !stack.empty() && looked < kMostConditions; looked++) {
    const Seen seen = stack.back().under_views();
    const UOp& c = *seen.value;
    stack.pop_back();
    if (c.op() == Op::AND) stack.insert(stack.end(), {seen.inside(c.src(0)), seen.inside(c.src(1))});
    if (c.op() != Op::CMPEQ || !c.src(0).dtype().is_int()) continue;
    for (const int64_t axis : reduce.arg().reduce().axes) {
      const auto at = seen.axis(static_cast<size_t>(axis));
      if (!at || (found & axis_bit(static_cast<size_t>(axis))) != 0) continue;
      const Along a = along(c.src(0), *at, 0), b = along(c.src(1), *at, 0);
      const bool first = a == Along::nothing && b == Along::counting;
      if (!first && (a != Along::counting || b != Along::nothing)) continue;
      Pick pick{.axis = static_cast<size_t>(axis), .index_axes = 0};
      const UOp& index = c.src(first ? 0 : 1);
      for (size_t other = 0; other < Reduction(reduce).value().shape().size(); other++)
        if (const auto there = seen.axis(other); there && along(index, *there, 0) != Along::nothing)
          pick.index_axes |= axis_bit(other);
      picks.push_back(pick);
      found |= axis_bit(pick.axis);
      break;  // a condition picks along one axis
    }
  }
  return picks;
}

uint64_t picked_axes(const UOp& reduce) {
  uint64_t axes = 0;
  for (const Pick& pick : picks_of(reduce)) axes |= axis_bit(pick.axis);
  return axes;
}

}  // namespace quern
