#include "quern/ir/node/reduce.h"

#include <algorithm>

#include "quern/ir/node/eval.h"

namespace quern {

bool closes(const UOp& u, const UOp& range) {
  const Sources ranges = closed_ranges(u);
  return std::ranges::find(ranges, range) != ranges.end();
}

Reduction::Reduction(const UOp& reduce) : op(reduce.arg().reduce().op), dtype(reduce.dtype()) {
  const Sources all = reduce.src();
  const size_t count = has_several_values() ? static_cast<size_t>(reduce.arg().reduce().states) : 1;
  values = all.first(count);
  ranges = closed_ranges(reduce);
  if (!has_several_values()) return;
  initial = all.subspan(count, count);
  combine = &all[2 * count];
}

UOps Reduction::identity() const {
  if (has_several_values()) return {initial.begin(), initial.end()};
  return {UOp::constant(dtype, identity_element(op, dtype.scalar()))};
}

}  // namespace quern
