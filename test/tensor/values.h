// Numbers of tensors in tests, by the reference evaluator: no scheduler and no device is involved.
#pragma once

#include <string>
#include <vector>

#include "quern/tensor/core/tensor.h"

namespace quern {

// A tensor in memory with these elements (as doubles; integers up to 2^53).
Tensor input(const Shape& shape, const std::vector<double>& elements, DType dtype = dtypes::float32);
Tensor counted(const Shape& shape, DType dtype = dtypes::float32);  // 0, 1, 2, ...
Tensor scattered(const Shape& shape, uint32_t seed = 1,
                 DType dtype = dtypes::float32);  // in [-2, 2), no order

using List = std::vector<double>;
std::vector<double> values(const Tensor& x);
std::string shape(const Tensor& x);  // "(2, 3)"

// The greatest difference from `expected` in units in the last place of the dtype; 1e9 if NaN or infinity
// differ.
double ulps(const Tensor& x, const std::vector<double>& expected);

}  // namespace quern
