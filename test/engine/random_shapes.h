// Random arguments of movement ops.
#pragma once

#include "quern/ir/node/uop.h"
#include "test/fuzz.h"

namespace quern::program {

Ints random_sizes(std::mt19937_64& random, int64_t elements);  // of a shape with that many
Ints random_order(std::mt19937_64& random, size_t axes);
Ints random_axes(std::mt19937_64& random, size_t axes);
Ints random_slices(std::mt19937_64& random, const Ints& shape);  // as Call::slice has them

bool broadcasts(const Ints& shape, const Ints& into);

}  // namespace quern::program
