// Values picked by tensors of indices.
#pragma once

#include <utility>
#include <vector>

#include "quern/tensor/core/tensor.h"

namespace quern::detail {

// x indexed by a tensor of integers along each of these axes: their shapes are broadcast together, and that
// shape takes the place of the axes if they are neighbours, else it comes first. Negative indices count from
// the end; others that are out of range give 0.
Tensor gather_axes(const Tensor& x, const std::vector<std::pair<int64_t, Tensor>>& indices);

// The indices as one number for each value: its place among the places of all these axes. One that is out of
// range is out of range of all of them.
Tensor one_index(const Tensor& x, const std::vector<std::pair<int64_t, Tensor>>& indices);

// What gather and scatter ask of their indices along an axis of x.
void check_index(const char* who, const Tensor& x, int64_t axis, const Tensor& index);
// x cut to the sizes of `shape`, but for one axis.
Tensor cut(const Tensor& x, const Shape& shape, int64_t but);

}  // namespace quern::detail
