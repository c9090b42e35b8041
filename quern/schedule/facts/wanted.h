// For which kernels and in which loops a value is wanted, before anything is decided. Two users that want it
// at different places, as the sum and the quotient of a softmax do, are as many values. A reduce that such a
// value is computed of, and that depends on an axis on which the places differ, is done once only if the
// value gets memory.
#pragma once

#include <cstdint>
#include <functional>

#include "quern/ir/node/node_map.h"
#include "quern/ir/node/uop.h"

namespace quern {

struct Wanted {
  bool by_several_kernels = false;
  uint64_t conflicting_axes = 0;  // the axes in which its users want different places, as bits
};

inline uint64_t axis_bit(size_t axis) { return uint64_t{1} << (axis < 63 ? axis : 63); }

// A value that a kernel computes, and that memory can be given to.
inline bool is_computed(const UOp& u) { return is_elementwise(u.op()) || u.op() == Op::REDUCE; }

// Of all nodes; `order` has sources before users. What `gets_memory` is computed once, in loops of its own.
void find_wanted(const NodeList& order, const std::function<bool(const UOp&, const Wanted&)>& gets_memory,
                 NodeMap<Wanted>& found);

}  // namespace quern
