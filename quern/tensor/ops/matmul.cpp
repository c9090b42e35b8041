// Matrix products.
#include <fmt/format.h>

#include "quern/tensor/core/support.h"

namespace quern {

namespace {
Shape batch_of(const Tensor& x) {
  const Shape shape = x.shape();
  return {shape.begin(), shape.end() - 2};
}
}  // namespace

// Rows of the one, columns of the other, multiplied and summed. The product is taken in the type of the sum:
// that of two narrow floats is exact there, which is what tensor cores compute.
Tensor Tensor::dot(const Tensor& other, std::optional<DType> dtype) const {
  if (ndim() == 0 || other.ndim() == 0)
    throw ShapeError(fmt::format("matmul: both need at least one axis, given {} and {}", shape_text(shape()),
                                 shape_text(other.shape())));
  const Tensor a = ndim() == 1 ? unsqueeze(0) : *this, b = other.ndim() == 1 ? other.unsqueeze(1) : other;
  if (!detail::same_dims(a.size(-1), b.size(-2)))
    throw ShapeError(fmt::format("matmul: shapes {} and {}: {} columns against {} rows", shape_text(shape()),
                                 shape_text(other.shape()), a.size(-1).text(), b.size(-2).text()));
  if (!detail::may_broadcast(batch_of(a), batch_of(b)))
    throw ShapeError(fmt::format("matmul: shapes {} and {}: the axes before the last two cannot be broadcast",
                                 shape_text(shape()), shape_text(other.shape())));
  detail::check_same_device("matmul", {a, b});
  const DType out = dtype.value_or(promote(this->dtype(), other.dtype()));
  const DType summed = dtype ? promote(detail::sum_dtype(out), out) : detail::sum_dtype(out);
  const Tensor rows = a.cast(out).cast(summed).unsqueeze(-2);                       // (..., n, 1, k)
  const Tensor columns = b.cast(out).cast(summed).transpose(-1, -2).unsqueeze(-3);  // (..., 1, m, k)
  Tensor c = (rows * columns).sum(-1, false, summed).cast(out);
  if (other.ndim() == 1) c = c.squeeze(-1);
  if (ndim() == 1) c = c.squeeze(other.ndim() == 1 ? -1 : -2);
  return c;
}

Tensor Tensor::linear(const Tensor& weight, const std::optional<Tensor>& bias) const {
  const Tensor product = weight.ndim() == 1 ? *this * weight : dot(weight);
  if (bias) detail::check_broadcasts("linear", "bias", *bias, product.shape());
  return bias ? product + *bias : product;
}

}  // namespace quern
