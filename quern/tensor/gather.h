// Values picked by tensors of indices.
#pragma once

#include <utility>
#include <vector>

#include "quern/tensor/tensor.h"

namespace quern::detail {

// x indexed by a tensor of integers along each of these axes: their shapes are broadcast together, and that shape takes
// the place of the axes if they are neighbours, else it comes first. Negative indices count from the end; others that
// are out of range give 0.
Tensor gather_axes(const Tensor& x, const std::vector<std::pair<int64_t, Tensor>>& indices);

}  // namespace quern::detail
