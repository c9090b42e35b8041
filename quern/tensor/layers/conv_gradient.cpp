#include "quern/tensor/layers/conv_gradient.h"

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/layers/pool.h"

namespace quern {
namespace {

ConvolutionShape shape_of(const UOp& tuple) {
  const Ints& numbers = tuple.hints().convolution;
  const auto n = (std::ssize(numbers) - 1) / 2;
  return {numbers[0], Ints(numbers.begin() + 1, numbers.begin() + 1 + n),
          Ints(numbers.begin() + 1 + n, numbers.end())};
}

}  // namespace

UOp as_convolution(const UOp& y, const UOp& x, const UOp& weight, const ConvolutionShape& shape) {
  Ints numbers{shape.groups};
  numbers.insert(numbers.end(), shape.stride.begin(), shape.stride.end());
  numbers.insert(numbers.end(), shape.dilation.begin(), shape.dilation.end());
  const UOp tuple =
      UOp::make(Op::TUPLE, dtypes::void_, {y, x, weight}).with_hint(&Hints::convolution, numbers);
  return UOp::make(Op::GETTUPLE, y.dtype(), {tuple}, int64_t{0});
}

bool is_convolution(const UOp& tuple) {
  return tuple.op() == Op::TUPLE && !tuple.hints().convolution.empty();
}

// The transposed convolution.
UOp convolution_to_input(const UOp& tuple, const UOp& gradient) {
  const ConvolutionShape shape = shape_of(tuple);
  const Tensor x(tuple.src(1)), weight(tuple.src(2)), g(gradient);
  Ints rest;  // elements behind the last window
  for (size_t i = 0; i < shape.stride.size(); i++) {
    const auto axis = static_cast<int64_t>(i + 2);
    const int64_t reach = (weight.size(axis).value() - 1) * shape.dilation[i] + 1;
    rest.push_back(x.size(axis).value() - (g.size(axis).value() - 1) * shape.stride[i] - reach);
  }
  return g
      .conv_transpose2d(weight, {},
                        {.groups = shape.groups,
                         .stride = shape.stride,
                         .dilation = shape.dilation,
                         .padding = 0,
                         .output_padding = rest})
      .cast(x.dtype())
      .uop();
}

// Windows of the input, multiplied by the gradient, summed over the batch and the places of the windows. Each
// element of the gradient is read for many weights: it is computed before.
UOp convolution_to_weight(const UOp& tuple, const UOp& gradient) {
  const ConvolutionShape shape = shape_of(tuple);
  const Tensor x(tuple.src(1)), weight(tuple.src(2)), g(contiguous(gradient));
  const size_t n = shape.stride.size();
  const int64_t groups = shape.groups, in = weight.size(1).value(), out = weight.size(0).value() / groups;
  Ints kernel, over{0};
  Shape windows{x.size(0), groups, Dim(1), in}, outputs{x.size(0), groups, out, Dim(1)}, ones(n, Dim(1));
  for (size_t i = 0; i < n; i++) {
    const auto axis = static_cast<int64_t>(i + 2);
    kernel.push_back(weight.size(axis).value());
    windows.push_back(g.size(axis));
    outputs.push_back(g.size(axis));
    over.push_back(static_cast<int64_t>(i + 4));
  }
  for (const int64_t k : kernel) windows.emplace_back(k);
  outputs.insert(outputs.end(), ones.begin(), ones.end());
  const DType computed = detail::sum_dtype(g.dtype());
  const Tensor seen = detail::pooled(x, kernel, shape.stride, shape.dilation).reshape(windows);
  const Tensor product = seen.cast(g.dtype()).cast(computed) * g.reshape(outputs).cast(computed);
  return product.sum(over, false, computed).reshape(weight.shape()).cast(weight.dtype()).uop();
}

}  // namespace quern
