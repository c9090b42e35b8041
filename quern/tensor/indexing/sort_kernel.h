// Sorting, selection and compaction along the last axis, as kernels. Rows, and pieces of long rows, do not
// depend on each other; what is done to one takes time that grows with its length alone.
#pragma once

#include "quern/tensor/indexing/loop_kernel.h"

namespace quern::detail {

// Unsigned integers in the order of x: NaN greatest, all of them alike, and -0.0 like 0.0. Of 32 bits at
// least. `descending`: in the opposite order. The second: how many of their bits differ at all.
struct SortKeys {
  Tensor keys;
  int64_t bits;
};
SortKeys sort_keys(const Tensor& x, bool descending);

// Of each row, the places of the elements from the least key to the greatest; equal ones in order.
Tensor sorted_places(const SortKeys& keys, DType index);

// Of each row, the places of the k least elements, or the k greatest, in order of their places. Of equal ones
// the first are taken. x is in memory, which is read once where k is small.
Tensor least_places(const Tensor& x, bool descending, int64_t k, DType index);

// Of each row, the elements at `places`, which are within the row, none of them twice; and the opposite:
// a row of n elements with these at these places, and 0 elsewhere. Each is the gradient of the other.
Tensor picked(const Tensor& x, const Tensor& places);
Tensor put_back(const Tensor& x, const Tensor& places, int64_t n);

// The places of the elements of a vector of bools that are true, in order; there are `count` of them.
Tensor true_places(const Tensor& mask, int64_t count, DType index);

// For each value, how many elements of its row of `sorted` are below it; `right`: or equal to it. NaN is
// greatest. sorted: (rows..., n) or (n), values: (rows..., m).
Tensor places_in_sorted(const Tensor& sorted, const Tensor& values, bool right, DType index);

}  // namespace quern::detail
