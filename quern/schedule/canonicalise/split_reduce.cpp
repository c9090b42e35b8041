#include "quern/schedule/canonicalise/split_reduce.h"

#include <algorithm>

#include "quern/base/env.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/facts/facts.h"
#include "quern/schedule/facts/movement_index.h"
#include "quern/schedule/facts/picks.h"
#include "quern/schedule/facts/wanted.h"

namespace quern {
namespace {

constexpr int64_t kMostParts = 256, kLeastParts = 8;

// Does what is under the movement ops change along this axis? Splitting an expanded axis would gain nothing.
bool is_expanded(const UOp& x, size_t axis) {
  UOps index;
  for (size_t i = 0; i < x.shape().size(); i++)
    index.push_back(i == axis ? UOp::range(x.shape()[i], 0) : UOp::index(0));
  const UOp* u = &x;
  for (; is_movement(u->op()); u = &u->src(0)) index = source_index(*u, index).index;
  return std::ranges::all_of(index, [](const UOp& i) { return i.ranges().empty(); });
}

}  // namespace

UOp split_reduce(const UOp& reduce) {
  const ReduceArg& arg = reduce.arg().reduce();
  if (env::SPLIT_REDUCEOP() == 0 || arg.op == Op::NOOP || arg.axes.empty()) return {};
  const UOp& x = Reduction(reduce).value();
  if (!std::ranges::all_of(x.shape(), [](const UOp& s) { return s.is_int_const(); })) return {};
  const uint64_t picked = picked_axes(reduce);  // they are no loops
  const int64_t outputs = elements_at_most(reduce.shape());
  int64_t inputs = elements_at_most(x.shape());
  for (const int64_t axis : arg.axes)
    if (const auto at = static_cast<size_t>(axis); (picked & axis_bit(at)) != 0)
      inputs /= std::max<int64_t>(size_of(x.shape()[at]), 1);
  if (outputs == 0 || inputs / outputs < env::REDUCEOP_SPLIT_THRESHOLD()) return {};
  const int64_t most = std::min(kMostParts, (int64_t{1} << env::REDUCEOP_SPLIT_SIZE()) / outputs);
  for (int64_t axis : arg.axes) {
    const auto at = static_cast<size_t>(axis);
    if ((picked & axis_bit(at)) != 0) continue;
    const auto size = static_cast<int64_t>(x.shape()[at].int_value());
    for (int64_t parts = most; parts >= kLeastParts; parts--) {
      if (size % parts != 0) continue;
      if (is_expanded(x, at)) break;
      // The parts become the last axis, which the second reduce goes over.
      UOps sizes(x.shape().begin(), x.shape().end());
      sizes[at] = UOp::index(size / parts);
      sizes.insert(sizes.begin() + axis, UOp::index(parts));
      Ints order;
      for (int64_t i = 0; i < std::ssize(sizes); i++)
        if (i != axis) order.push_back(i);
      order.push_back(axis);
      const UOp first = quern::reduce(permute(reshape(x, sizes), order), arg.op, arg.axes);
      const UOp parted = contiguous(first).with_hint(&Hints::reason, "a large reduce, in two kernels");
      return reshape(quern::reduce(parted, arg.op, {std::ssize(order) - 1}), reduce.shape());
    }
  }
  return {};
}

}  // namespace quern
