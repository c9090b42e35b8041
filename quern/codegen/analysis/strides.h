// How addresses change with a loop.
#pragma once

#include <optional>

#include "quern/ir/node/uop.h"

namespace quern {

constexpr int64_t kCacheLine = 64;  // bytes

bool is_open(const UOp& u, const UOp& range);

// How many steps a range has; 0 if that is not known.
int64_t steps(const UOp& range);

// By how much an index grows from one step of the range to the next: 0 if it does not depend on it, none if
// that is not the same for all steps, or not known. A gate is not looked at.
std::optional<wide> stride_of(const UOp& index, const UOp& range);

// Where an INDEX is: something, and a constant behind it.
struct Spot {
  UOp start;  // none: 0
  wide offset = 0;
};
Spot spot_of(const UOp& index);

}  // namespace quern
