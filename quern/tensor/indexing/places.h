// Values picked from places and put into places, along one of three axes: x is (outer, places, inner), the
// indices are (outer, count, inner), each of their axes but the second may be 1. ir/shape/places.h has how
// nodes say it.
#pragma once

#include "quern/tensor/core/tensor.h"

namespace quern {
namespace detail {

// Indices as such: of x, indexed from axis `first` on by the places of `axes` axes.
struct PlacesOf {
  Dim outer = 1, places = 1, inner = 1;
  bool is_known() const { return !outer.is_symbolic() && !places.is_symbolic() && !inner.is_symbolic(); }
};
PlacesOf places_of_axes(const Tensor& x, int64_t first, int64_t axes);

// int64; negative ones count from the end. Those of uint64 from 2^63 on become negative, and are places
// nowhere.
Tensor wrapped(const Tensor& index, const Dim& size);

// y, which is what the indices pick from x, with a gradient that costs no more than y and x.
Tensor as_picked(const Tensor& y, const Tensor& x, const PlacesOf& of, const Tensor& index);

// (outer, count, inner); 0 where the index is out of range.
Tensor pick(const char* who, const Tensor& x, const Tensor& index);

// x with the source, of which any axis may be 1, combined where the indices say, in the order of the source;
// NOOP: the last one stays. Sums and products of floats narrower than float32 are computed in float32.
Tensor put(const char* who, const Tensor& x, const Tensor& index, const Tensor& source, Op op);

}  // namespace detail

// Gradients: `tuple` is one of ir/shape/places.h.
UOp picked_to_source(const UOp& tuple, const UOp& gradient);
UOp put_to_target(const UOp& tuple, const UOp& gradient);
UOp put_to_source(const UOp& tuple, const UOp& gradient);

}  // namespace quern
