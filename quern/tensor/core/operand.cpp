// Numbers beside tensors, operators, and conversions of dtype.
#include "quern/tensor/core/operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/disk.h"
#include "quern/tensor/core/support.h"
#include "quern/tensor/core/training.h"

namespace quern {

DType Operand::dtype() const {
  if (is_tensor()) return tensor().dtype();
  if (is_bool()) return dtypes::bool_;
  return is_int() ? default_int() : default_float();
}

bool Operand::is_weak() const { return !is_tensor() || tensor().state()->is_number; }

DType Operand::dtype_beside(DType other) const {
  const bool holds = other.is_float() || (other.is_int() && !dtype().is_float());
  return holds && is_weak() ? other : promote(other, dtype());
}

bool Operand::is_held_by(DType dtype) const {
  if (dtype.is_float() || is_bool()) return true;
  auto holds = [&](wide n) { return dtype.is_bool() ? n == 0 || n == 1 : fits(dtype, n); };
  if (is_int()) return holds(integer());
  const double n = std::get<double>(value_);
  return std::trunc(n) == n && std::abs(n) < 0x1p65 && holds(static_cast<wide>(n));
}

DType detail::common_dtype(const Operand& a, const Operand& b) {
  if (a.dtype() == b.dtype()) return a.dtype();
  if (a.is_weak() == b.is_weak()) return promote(a.dtype(), b.dtype());
  return a.is_weak() ? a.dtype_beside(b.dtype()) : b.dtype_beside(a.dtype());
}

Tensor detail::to_write(const char* who, const Operand& value, DType dtype, const Shape& shape) {
  if (!value.is_tensor()) return number(value, dtype, shape);
  const Tensor& x = value.tensor();
  if (x.dtype() != dtype && !(value.is_weak() && value.dtype_beside(dtype) == dtype))
    throw DTypeError(
        fmt::format("{}: the value is {}, the tensor {}; cast it", who, x.dtype().name(), dtype.name()));
  const Tensor fitting = broadcast_to(who, x.cast(dtype), shape);
  return is_grad_enabled() ? fitting : fitting.detach();
}

UOp Operand::constant(DType dtype) const {
  if (is_tensor())
    throw Error(fmt::format("a number is needed here, given a tensor: {}", detail::text(tensor())));
  if (is_bool()) return UOp::constant(dtype, std::get<bool>(value_));
  return is_int() ? UOp::constant(dtype, std::get<wide>(value_))
                  : UOp::constant(dtype, std::get<double>(value_));
}

namespace {
// The first operand as a tensor whose dtype is that of the result, so that a number on the left stays weak.
Tensor left(const char* who, const Operand& a, const Operand& b) {
  return a.is_tensor() ? a.tensor() : detail::matched(who, a, b).first;
}
}  // namespace

Tensor operator+(const Operand& a, const Operand& b) { return left("add", a, b).add(b); }
Tensor operator-(const Operand& a, const Operand& b) { return left("sub", a, b).sub(b); }
Tensor operator*(const Operand& a, const Operand& b) { return left("mul", a, b).mul(b); }
Tensor operator/(const Operand& a, const Operand& b) { return left("div", a, b).div(b); }
Tensor operator%(const Operand& a, const Operand& b) { return left("mod", a, b).mod(b); }
Tensor operator&(const Operand& a, const Operand& b) {
  return b.is_tensor() && !a.is_tensor() ? b.tensor().bitwise_and(a)
                                         : left("bitwise_and", a, b).bitwise_and(b);
}
Tensor operator|(const Operand& a, const Operand& b) {
  return b.is_tensor() && !a.is_tensor() ? b.tensor().bitwise_or(a) : left("bitwise_or", a, b).bitwise_or(b);
}
Tensor operator^(const Operand& a, const Operand& b) {
  return b.is_tensor() && !a.is_tensor() ? b.tensor().bitwise_xor(a)
                                         : left("bitwise_xor", a, b).bitwise_xor(b);
}
// The number may be one that the dtype of the tensor cannot hold: it stays on the right.
Tensor operator<(const Operand& a, const Operand& b) {
  return b.is_tensor() ? b.tensor().gt(a) : left("lt", a, b).lt(b);
}
Tensor operator<=(const Operand& a, const Operand& b) {
  return b.is_tensor() ? b.tensor().ge(a) : left("le", a, b).le(b);
}
Tensor operator>(const Operand& a, const Operand& b) { return b < a; }
Tensor operator>=(const Operand& a, const Operand& b) { return b <= a; }
Tensor operator-(const Tensor& a) { return a.neg(); }
Tensor operator~(const Tensor& a) { return a.bitwise_not(); }

Tensor Tensor::cast(DType dtype) const {
  if (dtype.is_ptr() || dtype.is_void() || dtype.is_index() || dtype.lanes() != 1)
    throw DTypeError(fmt::format("cast: a tensor cannot hold {}", dtype.name()));
  return dtype == this->dtype() ? *this : Tensor(uop().cast(dtype));
}

Tensor Tensor::bitcast(DType dtype) const {
  const DType from = this->dtype();
  if (dtype.is_ptr() || dtype.is_void() || dtype.is_index() || dtype.lanes() != 1)
    throw DTypeError(fmt::format("bitcast: a tensor cannot hold {}", dtype.name()));
  if (dtype == from) return *this;
  if (from.is_bool() || dtype.is_bool()) throw DTypeError("bitcast: bool has no fixed bits; cast it");
  if (from.bits() == dtype.bits()) return seen_as(uop().bitcast(dtype));

  detail::need_axes("bitcast", *this, 1);
  const int64_t factor = std::max(from.bits(), dtype.bits()) / std::min(from.bits(), dtype.bits());
  if (from.bits() < dtype.bits() && detail::int_size("bitcast", *this, -1) % factor != 0)
    throw ShapeError(fmt::format("bitcast: {} to {}: the last axis must be a multiple of {}",
                                 detail::text(*this), dtype.name(), factor));
  const UOp u = uop();
  return detail::is_on_disk(u) ? seen_as(UOp::make(Op::BITCAST, dtype, {u}))
                               : detail::bitcast_to_width(*this, dtype);
}

// The last axis gets longer or shorter, the least significant part comes first.
Tensor detail::bitcast_to_width(const Tensor& x, DType dtype) {
  const DType from = x.dtype();
  const DType wide_dtype = unsigned_of(std::max(from.bits(), dtype.bits()));
  const DType narrow_dtype = unsigned_of(std::min(from.bits(), dtype.bits()));
  const int64_t parts = wide_dtype.bits() / narrow_dtype.bits();
  Shape shape = x.shape();
  const Tensor raw = Tensor(x.uop().bitcast(unsigned_of(from.bits())));
  const Tensor shifts = Tensor::arange(parts, {.dtype = wide_dtype}) * narrow_dtype.bits();
  if (from.bits() > dtype.bits()) {
    const Tensor split = raw.unsqueeze(-1).rshift(shifts).cast(narrow_dtype);
    shape.back() = product(shape.back(), parts);
    return Tensor(split.reshape(shape).uop().bitcast(dtype));
  }
  shape.back() = int_size("bitcast", x, -1) / parts;
  shape.emplace_back(parts);
  const Tensor joined = raw.reshape(shape).cast(wide_dtype).lshift(shifts).sum(-1, false, wide_dtype);
  return Tensor(joined.uop().bitcast(dtype));
}

}  // namespace quern
