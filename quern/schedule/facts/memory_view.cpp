#include "quern/schedule/facts/memory_view.h"

#include <algorithm>

#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/facts.h"
#include "quern/schedule/facts/movement_index.h"

namespace quern {

std::optional<MemoryView> contiguous_view(const UOp& x) {
  const UOp& base = base_of(x);
  if (!has_memory(base)) return std::nullopt;
  if (same(base, x)) return MemoryView{base, UOp::index(0)};
  if (std::ranges::any_of(x.shape(), [](const UOp& size) { return size.equals(0); })) return std::nullopt;
  UOps index;
  int64_t id = 0;
  for (const UOp& size : x.shape()) index.push_back(size.equals(1) ? UOp::index(0) : UOp::range(size, id++));
  const UOp own = flat_index(index, x.shape());
  for (const UOp* u = &x; !same(*u, base); u = &u->src(0)) {
    SourceIndex s = source_index(*u, index);
    if (s.valid) return std::nullopt;
    index = std::move(s.index);
  }
  UOp offset = (flat_index(index, base.shape()) - own).simplify();
  if (!offset.ranges().empty()) return std::nullopt;
  return MemoryView{base, std::move(offset)};
}

bool is_whole_memory(const UOp& x) {
  const auto view = contiguous_view(x);
  return view && view->offset.equals(0) &&
         same_sizes(UOps{elements_in(x.shape())}, UOps{elements_in(view->memory.shape())});
}

bool is_memory(const UOp& u) {
  return u.op() == Op::BUFFER || u.op() == Op::MSTACK || u.op() == Op::MSELECT || u.op() == Op::SLICE ||
         (u.op() == Op::PARAM && !u.dtype().is_ptr());
}
UOps states_under(const UOp& used) {
  UOps states, open{used};
  while (!open.empty()) {
    const UOp u = std::move(open.back());
    open.pop_back();
    if (u.op() == Op::SLICE || u.op() == Op::MSELECT)
      open.push_back(u.src(0));
    else if (u.op() == Op::MSTACK)
      open.insert(open.end(), u.src().begin(), u.src().end());
    else
      states.push_back(u);
  }
  return states;
}

}  // namespace quern
