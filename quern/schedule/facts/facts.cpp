#include "quern/schedule/facts/facts.h"

#include <algorithm>
#include <ranges>

#include "quern/ir/node/saturate.h"
#include "quern/schedule/facts/picks.h"
#include "quern/schedule/facts/wanted.h"

namespace quern {
bool is_function(Op op) {
  return OpSet{Op::EXP2, Op::LOG2, Op::SIN, Op::COS, Op::POW, Op::THREEFRY}.contains(op);
}

namespace {

constexpr int64_t kMost = int64_t{1} << 60;
int64_t capped(wide v) { return static_cast<int64_t>(std::min<wide>(v, kMost)); }

int64_t cost_of(Op op) {
  if (is_function(op)) return 8;
  switch (op) {
    case Op::FDIV:
    case Op::RECIP:
    case Op::SQRT:
    case Op::FLOORDIV:
    case Op::FLOORMOD:
    case Op::TRUNCDIV:
    case Op::TRUNCMOD: return 4;
    default: return 1;
  }
}

// Axes of the source to axes of the result, by groups of axes with as many elements.
uint64_t through_reshape(const UOp& u, uint64_t axes) {
  const UOps &from = u.src(0).shape(), &to = u.shape();
  uint64_t result = 0;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    uint64_t group_from = 0, group_to = 0;
    wide a = 1, b = 1;
    auto take_from = [&] { group_from |= axis_bit(i), a = saturating_mul(a, size_of(from[i++])); };
    auto take_to = [&] { group_to |= axis_bit(j), b = saturating_mul(b, size_of(to[j++])); };
    if (i < from.size()) take_from();
    if (j < to.size()) take_to();
    while (a != b && (i < from.size() || j < to.size())) {
      if ((a < b && i < from.size()) || j == to.size())
        take_from();
      else
        take_to();
    }
    if ((group_from & axes) != 0) result |= group_to;
  }
  for (size_t k = 0; k < to.size(); k++)
    if (to[k].equals(1)) result &= ~axis_bit(k);
  return result;
}

uint64_t through(const UOp& u, uint64_t axes) {
  const UOps& from = u.src(0).shape();
  uint64_t result = 0;
  switch (u.op()) {
    case Op::RESHAPE: return through_reshape(u, axes);
    case Op::PERMUTE: {
      const Ints& order = u.arg().ints();
      for (size_t i = 0; i < order.size(); i++)
        if ((axes & axis_bit(static_cast<size_t>(order[i]))) != 0) result |= axis_bit(i);
      return result;
    }
    case Op::EXPAND:
      for (size_t i = 0; i < from.size(); i++)
        if (!from[i].equals(1)) result |= axes & axis_bit(i);
      return result;
    default: return axes;
  }
}

}  // namespace

int64_t size_of(const UOp& size) { return capped(size.vmax()); }

int64_t elements_at_most(Sources sizes) {
  wide n = 1;
  for (const UOp& s : sizes) n = std::min<wide>(n * size_of(s), kMost);
  return static_cast<int64_t>(n);
}

bool has_memory(const UOp& u) {
  switch (u.op()) {
    case Op::BUFFER:
    case Op::PARAM:
    case Op::AFTER:
    case Op::CONTIGUOUS:
    case Op::COPY:
    case Op::MSTACK:
    case Op::MSELECT:
    case Op::SLICE: return true;
    default: return false;
  }
}

FactsOf::FactsOf(const NodeList& order) {
  facts_.reserve(order.size());
  for (const UOp& u : order) facts_.emplace(u, compute(u));
  const auto gets_memory = [](const Facts& f, const Wanted& wanted) {
    return f.contains_reduce && (wanted.by_several_kernels || (f.reduce_axes & wanted.conflicting_axes) != 0);
  };
  // What is computed of a value with memory has that one's reduces no more, and may need none itself then.
  for (int time = 0; time < 2; time++) {
    NodeMap<Wanted> wanted;
    find_wanted(
        order, [&](const UOp& u, const Wanted& w) { return gets_memory(*facts_.find(u), w); }, wanted);
    for (const UOp& u : order) {
      Facts& f = *facts_.find(u) = compute(u);
      f.materialised = is_computed(u) && gets_memory(f, *wanted.find(u));
    }
  }
}

// Of a REDUCE that picks one element: it reads that one only. `f` has the facts of its source.
static Facts picked(const UOp& u, Facts f) {
  const wide read = static_cast<wide>(elements_at_most(u.shape())) * std::max<int64_t>(f.loads, 1) *
                    std::max<int64_t>(u.dtype().bytes(), 4);
  f.bytes = capped(std::min<wide>(f.bytes, read));
  f.reduce_axes = 0;
  for (size_t i = 0; f.contains_reduce && i < u.shape().size(); i++)
    if (!u.shape()[i].equals(1)) f.reduce_axes |= axis_bit(i);
  return f;
}

Facts FactsOf::compute(const UOp& u) const {
  Facts f;
  if (u.op() == Op::DEVICE) {
    f.device = u;
    return f;
  }
  if (u.op() == Op::SINK) return f;  // of all, or a kernel of the user's, which is not looked into
  if (u.op() == Op::COPY || u.op() == Op::BUFFER) {
    f.device = u.src(1);
  } else if (u.op() == Op::MSELECT || u.op() == Op::MSTACK) {
    Texts names;
    for (const UOp& s : u.src())
      if (const Facts& of = (*this)[s]; of.device)
        names.insert(names.end(), of.device.arg().texts().begin(), of.device.arg().texts().end());
    if (u.op() == Op::MSELECT) names = {names.at(static_cast<size_t>(u.arg().integer()))};
    f.device = UOp::make(Op::DEVICE, dtypes::void_, {}, names);
  } else {
    for (const UOp& s : u.src())
      if (const Facts& of = (*this)[s]; of.device) {
        f.device = of.device;
        break;
      }
  }
  if (has_memory(u)) {
    f.loads = 1;
    f.bytes = capped(static_cast<wide>(elements_at_most(u.shape())) * u.dtype().bytes());
    return f;
  }
  const bool value = is_elementwise(u.op()) || is_movement(u.op()) || u.op() == Op::REDUCE ||
                     u.op() == Op::DETACH || u.op() == Op::CONTIGUOUS_BACKWARD || u.op() == Op::NOOP ||
                     u.op() == Op::GETTUPLE;
  if (!value) return f;
  const size_t values = is_elementwise(u.op()) ? u.src().size() : std::min<size_t>(u.src().size(), 1);
  for (const UOp& s : u.src().first(values)) {
    const Facts& of = (*this)[s];
    if (of.materialised) {
      f.loads = capped(static_cast<wide>(f.loads) + 1);
      f.bytes = capped(static_cast<wide>(f.bytes) + elements_at_most(s.shape()) * s.dtype().bytes());
      continue;
    }
    f.contains_reduce |= of.contains_reduce;
    f.functions |= of.functions;
    f.reduce_axes |= is_movement(u.op()) ? through(u, of.reduce_axes) : of.reduce_axes;
    f.cost = capped(static_cast<wide>(f.cost) + of.cost);
    f.steps = capped(static_cast<wide>(f.steps) + of.steps);
    f.loads = capped(static_cast<wide>(f.loads) + of.loads);
    f.bytes = capped(static_cast<wide>(f.bytes) + of.bytes);
  }
  if (is_elementwise(u.op())) f.cost += cost_of(u.op()), f.functions |= is_function(u.op());
  if (u.op() == Op::REDUCE) {
    uint64_t axes = 0;
    for (const int64_t axis : u.arg().reduce().axes) axes |= axis_bit(static_cast<size_t>(axis));
    if ((axes & ~picked_axes(u)) == 0) return picked(u, f);
    f.contains_reduce = true;
    f.reduce_axes = 0;
    const UOps& shape = u.shape();
    for (size_t i = 0; i < shape.size(); i++)
      if (!shape[i].equals(1)) f.reduce_axes |= axis_bit(i);
    const wide times = elements_at_most(u.src(0).shape()) / std::max<int64_t>(elements_at_most(shape), 1);
    f.steps = capped(times * std::max<int64_t>(f.steps, 1));
    f.cost = f.loads = 1;  // once it is hoisted or staged
    f.functions = false;
  }
  return f;
}

}  // namespace quern
