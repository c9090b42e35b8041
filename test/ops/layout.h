// How an input lies in memory: the same array as a permuted, flipped, strided, expanded, padded, shrunk or
// overlapping view of a base, once as a Tensor and once as a list of places.
#pragma once

#include "test/ops/array.h"

namespace quern::optest {

struct Placed {
  Ints base;                                  // the shape in memory
  std::function<Tensor(const Tensor&)> view;  // of a tensor of that shape
  Ints places;                                // of each element, in the base; -1: it is the padding
};

struct Layout {
  const char* name;
  std::optional<Placed> (*place)(const Ints& shape, Number fill);  // none where it does not apply
};

extern const std::vector<Layout> layouts;  // the first is the plain one

Array seen(const Placed& placed, const Array& base, const Ints& shape, Number fill);

}  // namespace quern::optest
