// Any view of memory that has sizes and strides, as tensor code.
#pragma once

#include <span>

#include "quern/tensor/core/tensor.h"

namespace quern::io {

// The view of `memory`, which has one axis, whose element (i, j, ...) is memory[offset + i * strides[0] + j *
// strides[1] + ...]. Movement ops where each stride spans what the smaller ones reach, else loads by computed
// indices. A ShapeError if it has negative sizes or strides, or leaves the memory.
Tensor strided(const Tensor& memory, int64_t offset, std::span<const int64_t> sizes,
               std::span<const int64_t> strides);

}  // namespace quern::io
