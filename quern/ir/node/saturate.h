// Arithmetic on wide integers that stops at the limits, for bounds, and floor division.
#pragma once

#include "quern/ir/node/const.h"

namespace quern {

inline constexpr wide kWideMax = ~(static_cast<wide>(1) << 127);

constexpr wide saturating_add(wide a, wide b) {
  wide r = 0;
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return a < 0 ? -kWideMax : kWideMax;
}
constexpr bool is_narrow(wide a) {
  return a == static_cast<int64_t>(a);
}  // most are: 64 bits are much quicker

constexpr wide saturating_mul(wide a, wide b) {
  if (is_narrow(a) && is_narrow(b))
    return static_cast<wide>(static_cast<int64_t>(a)) * static_cast<int64_t>(b);
  wide r = 0;
  if (!__builtin_mul_overflow(a, b, &r)) return r;
  return (a < 0) != (b < 0) ? -kWideMax : kWideMax;
}
template <class T>
constexpr T floor_div_of(T a, T b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
constexpr wide floor_div(wide a, wide b) {
  if (is_narrow(a) && is_narrow(b) && b != -1)
    return floor_div_of(static_cast<int64_t>(a), static_cast<int64_t>(b));
  return floor_div_of(a, b);
}
constexpr wide floor_mod(wide a, wide b) { return a - floor_div(a, b) * b; }
constexpr wide ceil_div(wide a, wide b) { return -floor_div(-a, b); }

}  // namespace quern
