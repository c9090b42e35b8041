// Functions whose name ends in _: the result is written into the memory of the tensor.
#include <fmt/format.h>

#include "quern/tensor/core/support.h"

namespace quern {
namespace {

// A result of another dtype cannot stay in the tensor, but floats of another width can.
const Tensor& write(const char* who, const Tensor& x, const Tensor& value) {
  if (value.dtype() == x.dtype()) return x.assign(value);
  if (value.is_floating_point() && !x.is_floating_point())
    throw DTypeError(fmt::format("{}: the result is {}, the tensor {}; cast it", who, value.dtype().name(),
                                 x.dtype().name()));
  return x.assign(value.cast(x.dtype()));
}

Tensor scaled(const Tensor& x, const Operand& other, double alpha) {
  if (alpha == 1) return x.add(other);
  return other.is_tensor() ? x.add(other.tensor() * alpha)
                           : x.add(other.constant(dtypes::float64).value().as_float() * alpha);
}

}  // namespace

const Tensor& Tensor::zero_() const { return fill_(0); }

const Tensor& Tensor::fill_(const Operand& value) const {
  if (!value.is_tensor()) return assign(value);
  if (value.tensor().ndim() != 0)
    throw ShapeError(fmt::format("fill_: the value has shape {}, expected one number",
                                 shape_text(value.tensor().shape())));
  return assign(value.tensor().cast(dtype()));
}

const Tensor& Tensor::copy_(const Tensor& other) const {
  Tensor value = other.cast(dtype());
  if (!devices().empty() && !value.devices().empty() && devices() != value.devices())
    value = devices().size() == 1 ? value.to(device()) : value.shard(devices());
  return assign(detail::broadcast_to("copy_", value, shape()));
}

const Tensor& Tensor::add_(const Operand& other, double alpha) const {
  return write("add_", *this, scaled(*this, other, alpha));
}
const Tensor& Tensor::sub_(const Operand& other, double alpha) const {
  return write("sub_", *this, alpha == 1 ? sub(other) : scaled(*this, other, -alpha));
}
const Tensor& Tensor::mul_(const Operand& other) const { return write("mul_", *this, mul(other)); }
const Tensor& Tensor::div_(const Operand& other) const { return write("div_", *this, div(other)); }
const Tensor& Tensor::clamp_(const Operand& min, const Operand& max) const {
  return write("clamp_", *this, clamp(min, max));
}
const Tensor& Tensor::lerp_(const Tensor& end, const Operand& weight) const {
  return write("lerp_", *this, lerp(end, weight));
}
const Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, double value) const {
  return write("addcmul_", *this, addcmul(a, b, value));
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, double value) const {
  return write("addcdiv_", *this, addcdiv(a, b, value));
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, const Operand& value) const {
  return write("masked_fill_", *this, masked_fill(mask, value));
}
const Tensor& Tensor::normal_(double mean, double std) const {
  return assign(normal(shape(), mean, std, {.dtype = dtype(), .device = device()}));
}
const Tensor& Tensor::uniform_(double low, double high) const {
  return assign(uniform(shape(), low, high, {.dtype = dtype(), .device = device()}));
}

}  // namespace quern
