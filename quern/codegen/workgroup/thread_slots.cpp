#include "quern/codegen/workgroup/thread_slots.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {
namespace {

// The ranges of threads that are open in a node, or just before it closes them.
UOps open_threads(const UOp& u) {
  UOps open;
  for (const UOp& r : u.ranges())
    if (is_of_threads(r)) open.push_back(r);
  if (u.op() == Op::END || u.op() == Op::REDUCE)
    for (const UOp& s : closed_ranges(u))
      for (const UOp& r : s.ranges())
        if (is_of_threads(r) && !contains(open, r)) open.push_back(r);
  return open;
}

// How many accesses go from one step to the next to a neighbour.
int64_t neighbours(const NodeList& order, const ThreadSlot& slot) {
  int64_t count = 0;
  for (const UOp& u : order) {
    if (u.op() != Op::LOAD && u.op() != Op::STORE) continue;
    const UOp& index = index_of_address(u.src(0));
    for (const UOp& r : slot.ranges)
      if (index.src().size() > 1 && is_open(index, r) && stride_of(position_of(index), r) == 1) count++;
  }
  return count;
}

}  // namespace

bool contains(const UOps& list, const UOp& u) { return std::ranges::find(list, u) != list.end(); }

bool is_of_threads(const UOp& range) {
  const AxisKind kind = range.arg().range().kind;
  return kind == AxisKind::LOCAL || kind == AxisKind::WARP || kind == AxisKind::GROUP_REDUCE;
}

int64_t threads_of(const std::vector<ThreadSlot>& slots) {
  int64_t threads = 1;
  for (const ThreadSlot& slot : slots) threads *= slot.size;
  return threads;
}

std::vector<ThreadSlot> thread_slots(const UOp& program) {
  const NodeList order = program.toposort();
  UOps ranges;
  for (const UOp& u : order)
    if (u.op() == Op::RANGE && is_of_threads(u)) ranges.push_back(u);
  if (ranges.empty()) return {};
  std::ranges::sort(ranges, before);
  NodeMap<UOps> meets;
  for (const UOp& u : order) {
    const UOps open = open_threads(u);
    for (const UOp& a : open)
      for (const UOp& b : open)
        if (!same(a, b) && !contains(meets[a], b)) meets[a].push_back(b);
  }
  std::vector<ThreadSlot> slots;
  for (const UOp& r : ranges) {
    if (!r.src(0).is_int_const())
      throw Error(fmt::format("kernel: the number of threads of range {} is symbolic", r.arg().range().id));
    const auto size = static_cast<int64_t>(r.src(0).int_value());
    const auto found = std::ranges::find_if(slots, [&](const ThreadSlot& slot) {
      return slot.size == size &&
             std::ranges::none_of(slot.ranges, [&](const UOp& other) { return contains(meets[r], other); });
    });
    if (found == slots.end())
      slots.push_back({size, {r}});
    else
      found->ranges.push_back(r);
  }
  std::ranges::stable_sort(slots, std::ranges::greater{},
                           [&](const ThreadSlot& slot) { return neighbours(order, slot); });
  return slots;
}

}  // namespace quern
