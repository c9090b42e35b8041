// Constants: exact values of every scalar type, their conversions, limits and bits.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "quern/ir/node/dtype.h"

namespace quern {

// Wide enough that sums of 64-bit integers, signed or not, are exact, and products unless both are unsigned.
__extension__ typedef __int128 wide;

std::string to_string(wide value);

// One constant. Which kind it is follows from the dtype it is used with:
//   bool -> Bool;  integers and index -> Int (uint64 as its 64-bit pattern);  floats -> Float.
// Every value of every float type is exact in a double. There is one NaN. 0.0 and -0.0 differ.
// Invalid is the "no value" that a gated index holds where its gate is false; it has any integer dtype.
class Const {
 public:
  enum class Kind : uint8_t { Bool, Int, Float, Invalid };

  constexpr Const() = default;
  static constexpr Const of_bool(bool v) { return Const(Kind::Bool, v ? 1 : 0); }
  static constexpr Const of_int(int64_t v) { return Const(Kind::Int, v); }
  static constexpr Const of_float(double v) {  // NaN becomes the one NaN
    return Const(Kind::Float, std::bit_cast<int64_t>(v == v ? v : std::numeric_limits<double>::quiet_NaN()));
  }
  static constexpr Const of_raw(Kind kind, int64_t raw) { return Const(kind, raw); }  // what raw() gave
  static constexpr Const invalid() { return Const(Kind::Invalid, 0); }

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_invalid() const { return kind_ == Kind::Invalid; }
  constexpr bool as_bool() const { return bits_ != 0; }                       // of a Bool
  constexpr int64_t as_int() const { return bits_; }                          // of an Int; of a Bool 0 or 1
  constexpr double as_float() const { return std::bit_cast<double>(bits_); }  // of a Float
  constexpr int64_t raw() const { return bits_; }  // for hashing and ordering: equal values, equal raw bits
  // The mathematical value of a Bool or Int, uint64 read as unsigned.
  constexpr wide integer(DType dtype) const {
    return dtype.kind() == Scalar::UInt64 ? wide{static_cast<uint64_t>(bits_)} : wide{bits_};
  }

  // By bits: NaN equals NaN, 0.0 does not equal -0.0.
  friend constexpr bool operator==(const Const&, const Const&) = default;

 private:
  constexpr Const(Kind kind, int64_t bits) : kind_(kind), bits_(bits) {}
  Kind kind_ = Kind::Int;
  int64_t bits_ = 0;
};

// In all functions below a vector dtype stands for its scalar.

// The constant of `dtype` that equals `value`, or a DTypeError that names value, dtype and its range. A float
// becomes the nearest value of a float dtype (overflow included); for an integer dtype it must be whole and
// in range; for bool a number must be 0 or 1.
Const make_const(DType dtype, wide value);
Const make_const(DType dtype, double value);
template <std::integral Integer>  // without it a plain int would not know which of the two to become
Const make_const(DType dtype, Integer value) {
  return make_const(dtype, static_cast<wide>(value));
}

// `value` modulo 2^bits: what integer arithmetic of the dtype gives (index wraps as int64 does).
Const wrap(DType dtype, wide value);

// Of an integer dtype or bool.
[[noreturn]] void not_integers(DType dtype);
constexpr wide int_min(DType dtype) {
  if (!dtype.is_int() && !dtype.is_bool()) not_integers(dtype);
  return dtype.is_signed() ? -(wide{1} << (dtype.bits() - 1)) : wide{0};
}
constexpr wide int_max(DType dtype) {
  if (!dtype.is_int() && !dtype.is_bool()) not_integers(dtype);
  return (wide{1} << (dtype.is_signed() ? dtype.bits() - 1 : dtype.bits())) - 1;
}
constexpr bool fits(DType dtype, wide value) { return int_min(dtype) <= value && value <= int_max(dtype); }

// The nearest value of the float dtype, ties to even, as a double. Too large: infinity; for fp8 the greatest
// value, unless it is infinite in float32: then infinity, or NaN for e4m3.
double round_float(DType dtype, double value);

// What CAST does at run time, on every device: integers wrap; anything to bool is `!= 0` (NaN: true); a float
// to an integer truncates towards zero and saturates, NaN becomes 0; to a float rounds to nearest even.
Const convert(Const value, DType from, DType to);

// The bits as stored in memory (bool: 0 or 1), in the low bits of the result; and back (what BITCAST does).
uint64_t to_bits(Const value, DType dtype);
Const from_bits(uint64_t bits, DType dtype);

// Limits: the least and greatest value (floats: -inf and inf; e4m3, that has none: -448 and 448), the largest
// finite value, and the distance from 1 to the next value (0 for integers).
Const min_value(DType dtype);
Const max_value(DType dtype);
double max_finite(DType dtype);
double epsilon(DType dtype);

// Text that reads back to the same bits: "true", "-3", "0.5", "1e-07", "-0.0", "nan", "inf", "-inf",
// "invalid". The shortest decimal that rounds to the value in the dtype; a float always has '.', 'e', "inf"
// or "nan" in it.
std::string to_string(Const value, DType dtype);

// The constant that the text says: whatever to_string prints, and any other decimal, as make_const takes it
// (a decimal of a float narrower than float32 is read as a double first). DTypeError for anything else.
Const parse_const(DType dtype, std::string_view text);

}  // namespace quern
