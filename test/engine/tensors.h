// Tensors that tests of the engine compute with, and names of devices for them.
#pragma once

#include <string>
#include <vector>

#include "quern/base/error.h"
#include "quern/tensor/core/tensor.h"
#include "test/error_of.h"

namespace quern {

using Floats = std::vector<float>;

inline std::vector<std::string> interps(int n) {
  std::vector<std::string> names;
  for (int i = 0; i < n; i++) names.push_back(i == 0 ? "INTERP" : "INTERP:" + std::to_string(i));
  return names;
}

inline Tensor row(const Floats& values) { return Tensor::from(values); }

// Small integers, the sums of which are exact: results are compared to the bit.
inline Tensor numbers(const Shape& shape, int seed = 1) {
  int64_t n = 1;
  for (const Dim& d : shape) n *= d.value();
  Floats values;
  for (int64_t i = 0; i < n; i++) values.push_back(static_cast<float>((i * 7 + seed * 5) % 11 - 5));
  return Tensor::from(values, shape);
}

}  // namespace quern
