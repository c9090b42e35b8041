// What the files of tensor/ share: axes, broadcasting, dtypes of results. `who` is the name of the user's
// function, with which every error begins.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quern/tensor/core/tensor.h"

namespace quern::detail {

// ---- Axes and shapes
int64_t resolve_axis(const char* who, int64_t axis, int64_t axes);    // -axes <= axis < axes
Ints resolve_axes(const char* who, const Axes& axes, int64_t count);  // sorted; none given: all; none twice
Shape checked_shape(const char* who,
                    const Shape& shape);  // sizes are not negative, their product is a number
std::string text(const Tensor& x);        // "float32 (2, 3)"
bool same_dims(const Dim& a, const Dim& b);
Dim sum_of(const Dim& a, const Dim& b);
Dim difference(const Dim& a, const Dim& b);
Dim product(const Dim& a, const Dim& b);
Dim product_of(const Shape& sizes);
Dim ceil_div(const Dim& a, int64_t b);
// The value of a size while variables have the values that they are bound to. None: one of them is not bound.
std::optional<wide> value_now(const UOp& size);
UOp at_least_0(const UOp& size);                   // the greater of it and 0
Ints int_shape(const char* who, const Tensor& x);  // ShapeError when a size is symbolic
int64_t int_size(const char* who, const Tensor& x, int64_t axis);
// A list of one number for each of n axes: one stands for all, none for `fallback`.
Ints per_axis(const char* who, const char* what, const IntList& given, size_t n, int64_t least,
              const IntList& fallback = {});
void check_window_numbers(const char* who, const char* what,
                          const Ints& values);  // ValueError for those beyond use

Tensor part(const Tensor& x, int64_t axis, const Dim& begin, const Dim& end);  // [begin, end) of one axis
// The one name of a device, by its form: the kind in capitals, no number for the first. Paths stay as they
// are.
std::string device_name(const char* who, const std::string& given);
Tensor placed(const Tensor& x, const TensorOptions& options);  // on the device that was asked for, if one was

// ---- Broadcasting and dtypes
Shape broadcast_shape(const char* who, const std::vector<Tensor>& tensors);
bool may_broadcast(const Shape& a, const Shape& b);
// ShapeError when x, an argument of this name, cannot be broadcast against that shape.
void check_broadcasts(const char* who, const char* what, const Tensor& x, const Shape& shape);
Tensor broadcast_to(const char* who, const Tensor& x, const Shape& shape);
Tensor number(const Operand& value, DType dtype, const Shape& shape);  // of a number: a constant
// Both with one dtype and one shape. At least one must be a tensor.
DType common_dtype(const Operand& a, const Operand& b);
// What is written into a tensor of this dtype, in this shape.
Tensor to_write(const char* who, const Operand& value, DType dtype, const Shape& shape);
std::pair<Tensor, Tensor> matched(const char* who, const Operand& a, const Operand& b);
Tensor apply(Op op, const Tensor& a);
Tensor apply(Op op, const Tensor& a, const Tensor& b);  // of one dtype and shape
Tensor if_else(const Tensor& condition, const Tensor& yes, const Tensor& no);
// The same, where the condition seldom holds: what only `yes` needs may be computed in a branch.
Tensor rarely(const Tensor& condition, const Tensor& yes, const Tensor& no);
Tensor binary(const char* who, Op op, const Operand& a, const Operand& b);
Tensor multiply_add(const Tensor& a, const Tensor& b, const Tensor& c);  // rounded once
Tensor polynomial(const Tensor& x, std::span<const double> c);           // c[0] + c[1] x + c[2] x^2 + ...
Tensor like(const Tensor& x, double value);                              // a constant of its dtype and shape

inline bool is_double(const Tensor& x) { return x.dtype() == dtypes::float64; }
Tensor to_float(const Tensor& x);  // integers become the default float
DType unsigned_of(int bits);       // 8, 16, 32 or 64
DType sum_dtype(DType dtype);      // what sums of it are computed in
DType product_dtype(DType dtype);  // of einsum and convolutions: floats their own, integers that of the sum
// f on x as a float; types narrower than float32 are computed in float32.
Tensor in_wide_float(const Tensor& x, const std::function<Tensor(const Tensor&)>& f);
Operand neutral_of(Op op, DType dtype);  // what changes nothing: 0 for ADD
Tensor reduced(const char* who, const Tensor& x, Op op, const Axes& axes, bool keepdim);
// What computes nothing here, but would with other sizes or dtypes, is no view of what it was given: writing
// the one leaves the other alone.
Tensor own_value(const Tensor& result, const Tensor& given);
inline Tensor own_value(const Tensor& x) { return own_value(x, x); }
// sqrt(x), or another power below 1, with the gradient 0 at 0: where nothing varies there is no direction.
Tensor root(const Tensor& x, double power = 0.5);
void check_same_device(const char* who, const std::vector<Tensor>& tensors);
void need_axes(const char* who, const Tensor& x, int64_t least);
void need_integers(const char* who, const char* what, const Tensor& x);

// ---- Counting
// What numbers places from 0 on, of which there are n: the default integer, or int64 where it does not go
// that far.
DType place_dtype(const Dim& n);
Tensor iota(const Dim& n, DType dtype);  // 0, 1, ..., n - 1
// x seen through windows over one axis: the axis becomes two, window number and place in the window.
Tensor windows(const Tensor& x, int64_t axis, const Dim& count, const Dim& size);
// i of the axis, in the shape of x's axis with ones around: broadcasts against x.
Tensor positions(const Tensor& x, int64_t axis, DType dtype);

}  // namespace quern::detail
