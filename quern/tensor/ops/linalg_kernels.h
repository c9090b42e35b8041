// The sequential parts of decompositions as kernels: what depends on what was computed just before, column by
// column or pair by pair. Each works on the last two axes, the others are a batch.
#pragma once

#include "quern/tensor/core/tensor.h"

namespace quern::detail {

// H_k ... H_1 x is upper triangular, where H_i = I - v_i v_i' is a reflection, and v_i row i of `vectors`, of
// length sqrt(2); or 0, where nothing has to be done. `reduced` is upper triangular but for rounding: what
// stands below its diagonal is to be taken for 0. x: (..., m, n), vectors: (..., k, m), k = min(m - 1, n).
struct Reflections {
  Tensor vectors, reduced;
};
Reflections reflections(const Tensor& x);

// Of an upper triangular matrix; what stands below the diagonal is not looked at.
Tensor upper_inverse(const Tensor& x);

// One-sided Jacobi: J x has orthogonal rows, where J is orthogonal. x: (..., n, n).
struct Rotations {
  Tensor rows, rotation;  // J x, and J
};
Rotations jacobi(const Tensor& x);

}  // namespace quern::detail
