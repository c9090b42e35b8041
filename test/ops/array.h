// The reference of these tests: arrays of plain numbers and loops over them. It shares no code with what it
// tests: not the evaluation of nodes, not the conversion of dtypes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "quern/tensor/core/tensor.h"

namespace quern::optest {

using Number = long double;  // holds every value of every dtype
using Whole = wide;          // integers before they wrap
using Numbers = std::vector<Number>;

struct Array {
  DType dtype;
  Ints shape;
  Numbers at;  // in order

  Array(DType dtype, Ints shape);  // zeros
  Array(DType dtype, Ints shape, Numbers numbers);
  Number& operator()(const Ints& index) { return at[place(index)]; }
  Number operator()(const Ints& index) const { return at[place(index)]; }
  size_t place(const Ints& index) const;
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};
using Arrays = std::vector<Array>;
using Tensors = std::vector<Tensor>;

// ---- Numbers and memory

Number rounded(DType dtype, Number value);             // to the nearest of a float type, ties to even
Number wrapped(DType dtype, Whole value);              // modulo 2^bits
Whole wrapped_product(Whole x, Whole y);               // modulo 2^128
Number converted(DType from, DType to, Number value);  // what cast does
uint64_t encoded(DType dtype, Number value);           // its bits in memory; it must be a value of the dtype
Number decoded(DType dtype, uint64_t bits);
Number spacing(DType dtype, Number value);  // to the next float
Whole least(DType dtype);                   // of integers
Whole greatest(DType dtype);

Tensor tensor_of(const Array& a);  // in memory
Array array_of(const Tensor& x);   // runs

// ---- Loops

int64_t count(const Ints& shape);
void each(const Ints& shape, const std::function<void(const Ints&)>& body);
int64_t axis_of(int64_t axis, int64_t rank);  // negative ones count from the end

// Element i of the result is element from(i) of `a`; without one it is `fill`.
using From = std::function<std::optional<Ints>(const Ints&)>;
Array moved(const Array& a, const Ints& shape, const From& from, Number fill = 0);
// Part [begin, begin + size) of each axis; what is outside of `a` is `fill`.
Array cut(const Array& a, const Ints& begin, const Ints& size, Number fill = 0);
Array broadcast(const Array& a, const Ints& shape);
Ints broadcast_shape(const std::vector<Ints>& shapes);
// All elements that go into one result, in order; no axes given: all.
Array reduced(const Array& a, const Axes& axes, bool keepdim, const std::function<Number(const Numbers&)>& f);
// Line by line along an axis. The lines of the result may have another length.
Array along(const Array& a, int64_t axis, const std::function<Numbers(const Numbers&)>& f);
Array elementwise(DType dtype, const Arrays& inputs, const std::function<Number(const Numbers&)>& f);
Array with_dtype(Array a, DType dtype);
Array permuted(const Array& a, const Ints& order);
Array swapped(const Array& a, int64_t first, int64_t second);
Array reshaped(const Array& a, const Ints& shape);
Array matmul(const Array& a, const Array& b);

// ---- Comparison

// "" where they agree: dtype, shape, and each number up to `ulps` units of the dtype, or of the greatest
// number of all where `whole` says so (sums lose digits that their parts had). Integers are equal.
struct Closeness {
  double ulps = 0;
  bool whole = false, signed_zeros = false;
  double least = 0;  // smaller numbers have the unit of this one
};
std::string difference(const Array& got, const Array& want, const Closeness& close);

std::string text(const Ints& shape);
Shape dims(const Ints& shape);

}  // namespace quern::optest
