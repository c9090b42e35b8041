#include "quern/codegen/memory/near_memory.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {
namespace {

constexpr int64_t kLeastLanes = 4;

// From the first step of the range to the second, in the first of all others.
wide first_step(const UOp& position, const UOp& range) {
  std::unordered_map<UOp, UOp> first;
  for (const UOp& r : position.ranges()) first.emplace(r, UOp::index(0));
  const UOp from = position.substitute(first).simplify();
  first[range] = UOp::index(1);
  const UOp to = position.substitute(first).simplify();
  return from.is_int_const() && to.is_int_const() ? to.int_value() - from.int_value() : wide{1} << 40;
}

}  // namespace

bool is_at_once(const UOp& range) {
  const AxisKind kind = range.arg().range().kind;
  return kind == AxisKind::UPCAST || kind == AxisKind::UNROLL;
}

wide distance(const UOp& address, const UOp& range) {
  const UOp& position = position_of(index_of_address(address));
  const std::optional<wide> stride = stride_of(position, range);
  const wide steps = stride ? *stride : first_step(position, range);
  return steps < 0 ? -steps : steps;
}

NearMemory::NearMemory(const UOp& program, DType dtype, const UOps& tile, const UOp& address) {
  UOps order = tile;
  std::ranges::stable_sort(order, [&](const UOp& a, const UOp& b) {
    if (is_at_once(a) != is_at_once(b)) return is_at_once(b);
    if (!is_at_once(a)) return before(a, b);
    const wide of_a = distance(address, a), of_b = distance(address, b);
    if (of_a != of_b) return of_a > of_b;
    return a.arg().range().kind == AxisKind::UNROLL && b.arg().range().kind == AxisKind::UPCAST;
  });
  // Lanes go along the innermost range: one that is too short for them gives way to one that is not.
  const auto may_be_lanes = [](const UOp& r) { return is_at_once(r) && r.src(0).int_value() >= kLeastLanes; };
  if (!order.empty() && is_at_once(order.back()) && !may_be_lanes(order.back())) {
    const auto last = std::find_if(order.rbegin(), order.rend(), may_be_lanes);
    if (last != order.rend()) std::rotate(last.base() - 1, last.base(), order.end());
  }
  position = UOp::index(0);
  int64_t elements = 1;
  for (size_t i = order.size(); i-- > 0;) {
    position = order[i] * elements + position;
    elements *= static_cast<int64_t>(order[i].src(0).int_value());
  }
  int64_t number = 0;  // that no memory of the program has
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::DEFINE_LOCAL) number = std::max(number, u.arg().integer() + 1);
  });
  memory = UOp::make(Op::DEFINE_LOCAL, dtype.ptr(elements, AddrSpace::LOCAL), {}, number);
}

UOps other_loops(const UOp& program, const UOps& ranges) {
  int64_t number = 0;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::RANGE) number = std::max(number, u.arg().range().id + 1);
  });
  UOps others;
  for (const UOp& r : ranges) others.push_back(UOp::range(r.src(0), number++, r.arg().range().kind));
  return others;
}

}  // namespace quern
