// Windows over the last axes of a tensor.
#pragma once

#include "quern/tensor/core/tensor.h"

namespace quern::detail {

// The last axes (d1, d2, ...) become (o1, o2, ..., k1, k2, ...). Sizes must be numbers, windows must fit.
Tensor pooled(const Tensor& x, const Ints& kernel, const Ints& stride, const Ints& dilation);

// One number, one an axis, or two an axis, as (before, after) of each axis, the last axis first.
Ints padding_of(const char* who, const IntList& given, size_t n);

}  // namespace quern::detail
