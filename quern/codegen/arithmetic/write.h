// How the rules of this room write arithmetic on scalars and vectors alike.
#pragma once

#include <array>
#include <cstdint>

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/linear_program.h"

namespace quern::arithmetic {

inline UOp integer(const UOp& like, int64_t value) {
  return UOp::constant(like.dtype(), static_cast<wide>(value));
}
inline UOp minus(const UOp& a, const UOp& b) { return UOp::alu(Op::SUB, {a, b}); }
inline DType same_lanes(DType scalar, const UOp& x) { return scalar.vec(x.dtype().lanes()); }
inline UOp as_int32(const UOp& x) { return x.bitcast(same_lanes(dtypes::int32, x)); }
inline UOp as_uint32(const UOp& x) { return x.bitcast(same_lanes(dtypes::uint32, x)); }
inline UOp as_float32(const UOp& bits) { return bits.bitcast(same_lanes(dtypes::float32, bits)); }
inline UOp as_uint64(const UOp& x) { return x.bitcast(same_lanes(dtypes::uint64, x)); }
inline UOp as_float64(const UOp& bits) { return bits.bitcast(same_lanes(dtypes::float64, bits)); }
inline UOp to_float64(const UOp& x) { return x.cast(same_lanes(dtypes::float64, x)); }

inline UOp multiply_add(bool fused, const UOp& a, const UOp& b, const UOp& c) {
  return fused ? UOp::alu(Op::MULACC, {a, b, c}) : a * b + c;
}

// c[0] + x * (c[1] + x * (...))
template <size_t n>
UOp polynomial(bool fused, const UOp& x, const std::array<double, n>& c) {
  UOp sum = number_like(x, c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) sum = multiply_add(fused, sum, x, number_like(x, c[i]));
  return sum;
}

// where(condition, value, otherwise), with a value that is seldom asked for: a renderer puts it in a branch.
inline UOp rarely(const UOp& condition, const UOp& value, const UOp& otherwise) {
  return where(condition, value, otherwise).with_hint(&Hints::rare, true);
}

// The same, by even and odd powers: two chains that do not wait for each other.
template <size_t n>
UOp in_two_chains(bool fused, const UOp& x, const std::array<double, n>& c) {
  const UOp square = x * x;
  const auto chain = [&](size_t i) {
    UOp sum = number_like(x, c[i]);
    while (i >= 2) i -= 2, sum = multiply_add(fused, sum, square, number_like(x, c[i]));
    return sum;
  };
  const size_t even = (n - 1) / 2 * 2, odd = n / 2 * 2 - 1;  // the last of each
  return multiply_add(fused, chain(odd), x, chain(even));
}

}  // namespace quern::arithmetic
