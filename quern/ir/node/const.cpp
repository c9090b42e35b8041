#include "quern/ir/node/const.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "quern/base/error.h"

namespace quern {

namespace {

using unsigned_wide = std::make_unsigned_t<wide>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// How a float type is laid out: sign, exponent, mantissa.
struct Format {
  int mantissa;      // bits, without the leading one
  int min_exponent;  // of the least normal value
  double max_finite;
  bool has_infinity;
  uint64_t nan_bits;  // of the NaN that to_bits gives
};

constexpr Format kFormats[] = {
    {3, -6, 448.0, false, 0x7f},
    {2, -14, 57344.0, true, 0x7e},
    {10, -14, 65504.0, true, 0x7e00},
    {7, -126, 0x1.fep127, true, 0x7fc0},
    {23, -126, std::numeric_limits<float>::max(), true, 0x7fc00000},
    {52, -1022, std::numeric_limits<double>::max(), true, 0x7ff8000000000000},
};

const Format& format_of(DType dtype) {
  QUERN_CHECK(dtype.is_float(), dtype.name() + " is not a float type");
  return kFormats[static_cast<int>(dtype.kind()) - static_cast<int>(Scalar::FP8E4M3)];
}

bool has_integers(DType dtype) { return dtype.is_int() || dtype.is_bool(); }

// Shifting up and down again leaves the low bits, with the sign where there is one.
int64_t wrap_bits(DType dtype, uint64_t value) {
  const int unused = 64 - dtype.bits();
  if (dtype.is_signed()) return static_cast<int64_t>(value << unused) >> unused;
  return static_cast<int64_t>((value << unused) >> unused);
}

Const of_integer(DType dtype, int64_t pattern) {
  return dtype.is_bool() ? Const::of_bool(pattern != 0) : Const::of_int(pattern);
}

double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// The exponent of `value`, no less than that of the least normal value: the type's values around it are
// 2^(exponent - mantissa) apart.
int exponent_in(const Format& format, double value) {
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7ff) - 1023;
  return std::max(exponent, format.min_exponent);
}

// The nearest float to an integer of any size, rounded once.
double round_integer(DType dtype, wide value) {
  if (dtype.kind() == Scalar::Float64) return static_cast<double>(value);
  if (dtype.kind() == Scalar::Float32) return static_cast<float>(value);
  constexpr int64_t exact = int64_t{1} << 53;
  if (-exact <= value && value <= exact)
    return round_float(dtype, static_cast<double>(static_cast<int64_t>(value)));
  // The bits that a double has no room for become one that says whether there were any ("round to odd"): it
  // keeps the second rounding from seeing a tie that is none.
  const auto magnitude = value < 0 ? -static_cast<unsigned_wide>(value) : static_cast<unsigned_wide>(value);
  const auto high = static_cast<uint64_t>(magnitude >> 64), low = static_cast<uint64_t>(magnitude);
  const int unused = high != 0 ? std::countl_zero(high) : 64 + std::countl_zero(low);
  const int dropped = 128 - unused - 53;
  const auto kept = static_cast<uint64_t>(magnitude >> dropped);
  const bool any = (static_cast<unsigned_wide>(kept) << dropped) != magnitude;
  const double odd = static_cast<double>(kept | (any ? 1 : 0)) * power_of_two(dropped);
  return round_float(dtype, value < 0 ? -odd : odd);
}

[[noreturn]] void refuse(DType dtype, std::string_view value) {
  const std::string range = dtype.is_float() ? fmt::format("-{0} to {0}", max_finite(dtype))
                                             : to_string(int_min(dtype)) + " to " + to_string(int_max(dtype));
  throw DTypeError(
      fmt::format("{} is not one of the values of {} ({})", value, dtype.scalar().name(), range));
}

void require_constants(DType dtype) {
  if (dtype.is_ptr() || dtype.is_void()) throw DTypeError(fmt::format("{} has no constants", dtype.name()));
}

// The whole of the text as a number, or nothing.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

template <class Float>
std::string shortest(Float value) {
  std::array<char, 32> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

// The shortest decimal that rounds to the finite `value`; of several the nearest.
std::string shortest_rounding_to(DType dtype, double value) {
  std::string own = shortest(value);
  for (int digits = 1; digits <= 17; digits++) {
    // "1.25e-07" is 125 times 10^-9. Its neighbours count too: the values above and below a power of two are
    // not spaced alike, so that the nearest decimal may miss where one further off does not.
    std::string text = fmt::format("{:.{}e}", std::abs(value), digits - 1);
    const int exponent = std::stoi(text.substr(text.find('e') + 1)) - (digits - 1);
    text.resize(text.find('e'));
    std::erase(text, '.');
    const int64_t nearest = std::stoll(text);
    std::string best;
    double distance = kInf;
    for (const int64_t decimal : {nearest, nearest - 1, nearest + 1}) {
      const std::string sign = value < 0 ? "-" : "";
      const auto candidate = parse_number<double>(fmt::format("{}{}e{}", sign, decimal, exponent));
      if (!candidate || round_float(dtype, *candidate) != value) continue;
      std::string found = shortest(*candidate);
      const double off = std::abs(*candidate - value);
      const bool better = found.size() != best.size() ? found.size() < best.size() : off < distance;
      if (best.empty() || better) best = std::move(found), distance = off;
    }
    if (best.empty()) continue;
    return best.size() < own.size() ? best : own;  // 448.0 rather than 450.0
  }
  return own;
}

}  // namespace

std::string to_string(wide value) { return fmt::format("{}", value); }

Const make_const(DType dtype, wide value) {
  require_constants(dtype);
  if (dtype.is_float()) return Const::of_float(round_integer(dtype, value));
  if (!fits(dtype, value)) refuse(dtype, to_string(value));
  return wrap(dtype, value);
}

Const make_const(DType dtype, double value) {
  require_constants(dtype);
  if (dtype.is_float()) return Const::of_float(round_float(dtype, value));
  const bool whole = std::abs(value) <= 0x1p64 && std::trunc(value) == value;
  if (!whole || !fits(dtype, static_cast<wide>(value)))
    refuse(dtype, to_string(Const::of_float(value), dtypes::float64));
  return wrap(dtype, static_cast<wide>(value));
}

Const wrap(DType dtype, wide value) {
  QUERN_CHECK(has_integers(dtype), dtype.name() + " is not an integer type");
  return of_integer(dtype, wrap_bits(dtype, static_cast<uint64_t>(value)));
}

void not_integers(DType dtype) {
  check_failed("integers", __FILE__, __LINE__, dtype.name() + " is not an integer type");
}

double round_float(DType dtype, double value) {
  const Format& format = format_of(dtype);
  if (dtype.kind() == Scalar::Float64) return value;
  if (dtype.kind() == Scalar::Float32) return static_cast<float>(value);
  if (std::isnan(value)) return kNaN;
  const double magnitude = std::abs(value);
  const bool saturates = dtype.is_fp8() && !std::isinf(static_cast<float>(value));
  const double overflow = saturates             ? std::copysign(format.max_finite, value)
                          : format.has_infinity ? std::copysign(kInf, value)
                                                : kNaN;
  if (magnitude >= 2 * format.max_finite) return overflow;
  // The spacing of doubles at `shifter` is that of the type's values at `value`: the sum is rounded to it by
  // the hardware, to nearest even, and the difference is exact.
  const double shifter = 1.5 * power_of_two(52 + exponent_in(format, value) - format.mantissa);
  const double rounded = (magnitude + shifter) - shifter;
  return rounded > format.max_finite ? overflow : std::copysign(rounded, value);
}

Const convert(Const value, DType from, DType to) {
  if (value.is_invalid()) return value;
  if (!from.is_float()) {
    if (to.is_float()) return Const::of_float(round_integer(to, value.integer(from)));
    return to.is_bool() ? Const::of_bool(value.as_int() != 0) : wrap(to, value.as_int());
  }
  const double number = value.as_float();
  if (to.is_float()) return Const::of_float(round_float(to, number));
  if (to.is_bool()) return Const::of_bool(number != 0);
  if (std::isnan(number)) return Const::of_int(0);
  // The greatest int64 and uint64 become the next power of two as doubles: all that is less can be converted.
  const wide least = int_min(to), greatest = int_max(to);
  if (number <= static_cast<double>(least)) return wrap(to, least);
  if (number >= static_cast<double>(greatest)) return wrap(to, greatest);
  if (to.is_unsigned()) return Const::of_int(static_cast<int64_t>(static_cast<uint64_t>(number)));
  return Const::of_int(static_cast<int64_t>(number));
}

uint64_t to_bits(Const value, DType dtype) {
  QUERN_CHECK(!value.is_invalid() && (has_integers(dtype) || dtype.is_float()),
              dtype.name() + " without bits");
  if (!dtype.is_float()) return static_cast<uint64_t>(value.as_int()) & (~uint64_t{0} >> (64 - dtype.bits()));
  const Format& format = format_of(dtype);
  const double number = value.as_float();
  if (std::isnan(number)) return format.nan_bits;
  if (dtype.kind() == Scalar::Float64) return std::bit_cast<uint64_t>(number);
  if (dtype.kind() == Scalar::Float32) return std::bit_cast<uint32_t>(static_cast<float>(number));
  const uint64_t sign = std::signbit(number) ? uint64_t{1} << (dtype.bits() - 1) : 0;
  // Infinity is where the value after the largest would be.
  const double magnitude =
      std::min(std::abs(number), power_of_two(exponent_in(format, format.max_finite) + 1));
  const int exponent = exponent_in(format, magnitude);
  const double mantissa =
      magnitude * power_of_two(format.mantissa - exponent);  // with the leading one, if normal
  const auto steps = static_cast<uint64_t>(exponent - format.min_exponent) << format.mantissa;
  return sign | (steps + static_cast<uint64_t>(mantissa));
}

Const from_bits(uint64_t bits, DType dtype) {
  if (dtype.is_bool()) return Const::of_bool((bits & 0xff) != 0);
  if (!dtype.is_float()) return wrap(dtype, static_cast<wide>(bits));
  if (dtype.kind() == Scalar::Float64) return Const::of_float(std::bit_cast<double>(bits));
  if (dtype.kind() == Scalar::Float32)
    return Const::of_float(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const Format& format = format_of(dtype);
  const uint64_t mantissa_mask = (uint64_t{1} << format.mantissa) - 1;
  const uint64_t magnitude_mask = (uint64_t{1} << (dtype.bits() - 1)) - 1;
  const uint64_t magnitude = bits & magnitude_mask;
  const uint64_t first_special = format.has_infinity ? magnitude_mask & ~mantissa_mask : magnitude_mask;
  double value;
  if (magnitude >= first_special) {
    value = format.has_infinity && magnitude == first_special ? kInf : kNaN;
  } else {
    const int biased = static_cast<int>(magnitude >> format.mantissa);
    const uint64_t leading_one = biased == 0 ? 0 : mantissa_mask + 1;
    const int exponent = format.min_exponent + std::max(biased - 1, 0) - format.mantissa;
    value = static_cast<double>((magnitude & mantissa_mask) | leading_one) * power_of_two(exponent);
  }
  return Const::of_float((bits & (magnitude_mask + 1)) != 0 ? -value : value);
}

Const min_value(DType dtype) {
  if (!dtype.is_float()) return wrap(dtype, int_min(dtype));
  return Const::of_float(-max_value(dtype).as_float());
}

Const max_value(DType dtype) {
  if (!dtype.is_float()) return wrap(dtype, int_max(dtype));
  return Const::of_float(format_of(dtype).has_infinity ? kInf : max_finite(dtype));
}

double max_finite(DType dtype) {
  return dtype.is_float() ? format_of(dtype).max_finite : static_cast<double>(int_max(dtype));
}

double epsilon(DType dtype) { return dtype.is_float() ? power_of_two(-format_of(dtype).mantissa) : 0.0; }

std::string to_string(Const value, DType dtype) {
  if (value.is_invalid()) return "invalid";
  if (dtype.is_bool()) return value.as_bool() ? "true" : "false";
  if (!dtype.is_float()) return to_string(value.integer(dtype));
  const double number = value.as_float();
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  if (number == 0) return std::signbit(number) ? "-0.0" : "0.0";
  std::string text = dtype.kind() == Scalar::Float64   ? shortest(number)
                     : dtype.kind() == Scalar::Float32 ? shortest(static_cast<float>(number))
                                                       : shortest_rounding_to(dtype, number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

Const parse_const(DType dtype, std::string_view text) {
  require_constants(dtype);
  if (text == "invalid" && dtype.is_int()) return Const::invalid();
  if (text == "true" && dtype.is_bool()) return Const::of_bool(true);
  if (text == "false" && dtype.is_bool()) return Const::of_bool(false);
  if (dtype.is_float()) {
    // Straight to float32: a decimal close to the middle of two floats may become that middle as a double.
    if (dtype.kind() == Scalar::Float32) {
      if (const auto number = parse_number<float>(text)) return Const::of_float(*number);
    } else if (const auto number = parse_number<double>(text)) {
      return Const::of_float(round_float(dtype, *number));
    }
  } else if (const auto number = parse_number<int64_t>(text)) {
    return make_const(dtype, *number);
  } else if (const auto large = parse_number<uint64_t>(text)) {
    return make_const(dtype, *large);
  }
  refuse(dtype, "'" + std::string(text) + "'");
}

}  // namespace quern
