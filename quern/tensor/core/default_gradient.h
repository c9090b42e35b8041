// Tensors of which nobody said whether they want a gradient.
#pragma once

#include <memory>
#include <vector>

#include "quern/tensor/core/live.h"

namespace quern::detail {

// Those that this thread made or changed last, oldest first.
std::vector<std::shared_ptr<TensorState>> states_with_default_gradient();

}  // namespace quern::detail
