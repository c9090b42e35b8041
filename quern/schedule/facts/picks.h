// Sums that pick: of all steps along an axis only the one whose number equals an index counts. They need no
// loop, collapse.cpp turns them into a read; what plans loops has to know it before.
#pragma once

#include <cstdint>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern {

// An axis of a tensor-level REDUCE along which it picks: its source is where(i == IOTA, x, 0), or that
// condition as a number times x, with an index `i` that does not change along the axis.
struct Pick {
  size_t axis;
  uint64_t index_axes;  // on which the index depends, as bits
};
std::vector<Pick> picks_of(const UOp& reduce);
uint64_t picked_axes(const UOp& reduce);  // as bits

}  // namespace quern
