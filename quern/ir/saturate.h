// Arithmetic on wide integers that stops at the limits, for bounds, and floor division.
#pragma once

#include "quern/ir/const.h"

namespace quern {

inline constexpr wide kWideMax = ~(static_cast<wide>(1) << 127);

constexpr wide saturating_add(wide a, wide b) {
  wide r = 0;
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return a < 0 ? -kWideMax : kWideMax;
}
constexpr wide saturating_mul(wide a, wide b) {
  wide r = 0;
  if (!__builtin_mul_overflow(a, b, &r)) return r;
  return (a < 0) != (b < 0) ? -kWideMax : kWideMax;
}
constexpr wide floor_div(wide a, wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
constexpr wide floor_mod(wide a, wide b) { return a - floor_div(a, b) * b; }
constexpr wide ceil_div(wide a, wide b) { return -floor_div(-a, b); }

}  // namespace quern
