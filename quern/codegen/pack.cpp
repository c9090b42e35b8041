#include "quern/codegen/pack.h"

#include <algorithm>
#include <unordered_map>

#include "quern/codegen/strides.h"
#include "quern/ir/linear.h"
#include "quern/ir/node_map.h"

namespace quern {
namespace {

int64_t steps(const UOp& range) { return static_cast<int64_t>(range.src(0).int_value()); }
bool is_at_once(const UOp& range) {
  const AxisKind kind = range.arg().range().kind;
  return kind == AxisKind::UPCAST || kind == AxisKind::UNROLL;
}

// Numbers that no range and no memory of the program has.
struct Unused {
  int64_t range = 0, local = 0;
  explicit Unused(const UOp& program) {
    walk(program, [&](const UOp& u) {
      if (u.op() == Op::RANGE) range = std::max(range, u.arg().range().id + 1);
      if (u.op() == Op::DEFINE_LOCAL) local = std::max(local, u.arg().integer() + 1);
    });
  }
};

// How far apart neighbouring steps are in memory; far, if that is not one number.
wide distance(const UOp& load, const UOp& range) {
  const wide far = wide{1} << 40;
  const wide stride = stride_of(position_of(index_of_address(load.src(0))), range).value_or(far);
  return stride < 0 ? -stride : stride;
}

}  // namespace

UOp pack(const UOp& program, const UOp& load, const UOps& tile) {
  const auto farthest_first = [&](const UOp& a, const UOp& b) {
    return distance(load, a) > distance(load, b);
  };
  // where a value is in the copy: loops outermost first, and what is done at once
  UOps order = tile;
  std::ranges::stable_sort(order, [&](const UOp& a, const UOp& b) {
    if (is_at_once(a) != is_at_once(b)) return is_at_once(b);
    if (!is_at_once(a)) return before(a, b);
    if (distance(load, a) != distance(load, b)) return farthest_first(a, b);
    return a.arg().range().kind == AxisKind::UNROLL && b.arg().range().kind == AxisKind::UPCAST;
  });
  UOp position = UOp::index(0);
  int64_t elements = 1;
  for (size_t i = order.size(); i-- > 0;) {
    position = order[i] * elements + position;
    elements *= steps(order[i]);
  }
  // the copying
  Unused unused(program);
  const UOp copy =
      UOp::make(Op::DEFINE_LOCAL, load.dtype().ptr(elements, AddrSpace::LOCAL), {}, unused.local);
  UOps through = tile;
  std::ranges::stable_sort(through, farthest_first);
  std::unordered_map<UOp, UOp> copying;
  UOps closed;
  for (const UOp& r : through) {
    const AxisKind kind = is_at_once(r) ? AxisKind::UPCAST : AxisKind::LOOP;
    closed.push_back(UOp::range(r.src(0), unused.range++, kind));
    copying.emplace(r, closed.back());
  }
  const auto at = [&](const UOp& memory, const UOp& where) {
    return UOp::make(Op::INDEX, copy.dtype(), {memory, where});
  };
  UOps end{UOp::make(Op::STORE, dtypes::void_,
                     {at(copy, position.substitute_open(copying)), load.substitute_open(copying)})};
  end.insert(end.end(), closed.begin(), closed.end());
  const UOp copied = UOp::make(Op::AFTER, copy.dtype(), {copy, UOp::make(Op::END, dtypes::void_, end)});
  return program.substitute({{load, UOp::make(Op::LOAD, load.dtype(), {at(copied, position)})}});
}

}  // namespace quern
