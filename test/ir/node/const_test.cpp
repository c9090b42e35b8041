#include "quern/ir/node/const.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quern/base/error.h"
#include "test/ir/const_golden.h"
#include "test/ir/scalars.h"

namespace quern {
namespace {

std::string text_of_error(auto&& what) {
  try {
    what();
  } catch (const DTypeError& error) {
    return error.what();
  }
  return "no error";
}

// ---- A slow reference for narrow floats, from the definition of their layout alone.

struct Layout {
  int exponent_bits, mantissa_bits;
  bool ieee;  // the greatest exponent is that of infinities and NaNs; else only the last pattern is a NaN
};

Layout layout(DType dtype) {
  if (dtype == dtypes::fp8e4m3) return {4, 3, false};
  if (dtype == dtypes::fp8e5m2) return {5, 2, true};
  if (dtype == dtypes::float16) return {5, 10, true};
  return {8, 7, true};
}

// The value of a pattern without a sign, as if no pattern were special: infinity is the value after the
// largest.
double plain_value(DType dtype, uint64_t pattern) {
  const Layout format = layout(dtype);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint64_t exponent = pattern >> format.mantissa_bits;
  const uint64_t mantissa = pattern & ((uint64_t{1} << format.mantissa_bits) - 1);
  const double fraction = std::ldexp(static_cast<double>(mantissa), -format.mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias)
                       : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

uint64_t first_special(DType dtype) {
  const Layout format = layout(dtype);
  const uint64_t all_ones = (uint64_t{1} << (dtype.bits() - 1)) - 1;
  return format.ieee ? all_ones >> format.mantissa_bits << format.mantissa_bits : all_ones;
}

double value_of_bits(DType dtype, uint64_t pattern) {
  const uint64_t sign = uint64_t{1} << (dtype.bits() - 1), magnitude = pattern & (sign - 1);
  double value = plain_value(dtype, magnitude);
  if (magnitude >= first_special(dtype))
    value = layout(dtype).ieee && magnitude == first_special(dtype) ? kInf : kNaN;
  return pattern & sign ? -value : value;
}

// All values that are not negative, in order, and after them the one that stands for overflow.
std::vector<double> sorted_values(DType dtype) {
  std::vector<double> values;
  for (uint64_t pattern = 0; pattern <= first_special(dtype); pattern++)
    values.push_back(plain_value(dtype, pattern));
  return values;
}

double nearest(DType dtype, const std::vector<double>& values, double number) {
  const double magnitude = std::abs(number);
  size_t at = values.size() - 1;
  if (magnitude < values.back()) {
    at = static_cast<size_t>(std::ranges::upper_bound(values, magnitude) - values.begin()) - 1;
    const double middle = (values[at] + values[at + 1]) / 2;
    if (magnitude > middle || (magnitude == middle && at % 2 == 1)) at++;
  }
  if (at + 1 == values.size()) {
    if (dtype.is_fp8() && !std::isinf(static_cast<float>(number)))
      return std::copysign(max_finite(dtype), number);
    return layout(dtype).ieee ? std::copysign(kInf, number) : kNaN;
  }
  return std::copysign(values[at], number);
}

TEST(Rounding, OfEveryValueMidpointAndNeighbourIsToNearestEven) {
  for (const DType dtype : kNarrowFloats) {
    const std::vector<double> values = sorted_values(dtype);
    const auto check = [&](double number) {
      for (const double x : {number, std::nextafter(number, kInf), std::nextafter(number, -kInf)})
        for (const double signed_x : {x, -x})
          if (!same(round_float(dtype, signed_x), nearest(dtype, values, signed_x)))
            ADD_FAILURE() << dtype.name() << " of " << signed_x << ": " << round_float(dtype, signed_x);
    };
    for (size_t i = 0; i + 1 < values.size(); i++) {
      check(values[i]);
      check((values[i] + values[i + 1]) / 2);
    }
    check(values.back());
  }
}

TEST(Rounding, OfRandomDoublesIsToNearestEven) {
  std::mt19937_64 random(2);
  for (const DType dtype : kNarrowFloats) {
    const std::vector<double> values = sorted_values(dtype);
    for (int i = 0; i < 20000; i++) {
      // A random exponent, a little beyond those of the type on both sides.
      const int exponent = static_cast<int>(random() % 320) - 170;
      const double number = std::ldexp(1 + std::ldexp(static_cast<double>(random() >> 12), -52), exponent);
      EXPECT_PRED2(same, round_float(dtype, number), nearest(dtype, values, number)) << dtype.name();
    }
  }
}

TEST(Rounding, OfExtremes) {
  for (const DType dtype : kFloats) {
    const double overflow = dtype == dtypes::fp8e4m3 ? kNaN : kInf;
    EXPECT_PRED2(same, round_float(dtype, kNaN), kNaN);
    EXPECT_PRED2(same, round_float(dtype, kInf), overflow);
    EXPECT_PRED2(same, round_float(dtype, -kInf), -overflow);
    EXPECT_PRED2(same, round_float(dtype, 0.0), 0.0);
    EXPECT_PRED2(same, round_float(dtype, -0.0), -0.0);
    EXPECT_PRED2(same, round_float(dtype, max_finite(dtype)), max_finite(dtype));
    if (dtype == dtypes::float64) continue;
    EXPECT_PRED2(same, round_float(dtype, 5e-324), 0.0);
    EXPECT_PRED2(same, round_float(dtype, -5e-324), -0.0);
    EXPECT_PRED2(same, round_float(dtype, std::numeric_limits<double>::max()), overflow);
  }
}

TEST(Rounding, OverflowsFromHalfAStepBeyondTheLargest) {
  for (const double number : {464.0, 465.0, 1e6, 3e38}) EXPECT_EQ(round_float(dtypes::fp8e4m3, number), 448);
  for (const double number : {61440.0, 1e6, 3e38}) EXPECT_EQ(round_float(dtypes::fp8e5m2, -number), -57344);
  EXPECT_EQ(round_float(dtypes::fp8e5m2, 1e39), kInf);  // which float32 does not hold either
  EXPECT_EQ(round_float(dtypes::float16, std::nextafter(65520, 0)), 65504);
  EXPECT_EQ(round_float(dtypes::float16, 65520), kInf);
  EXPECT_EQ(round_float(dtypes::bfloat16, std::nextafter(0x1.ffp127, 0)), 0x1.fep127);
  EXPECT_EQ(round_float(dtypes::bfloat16, 0x1.ffp127), kInf);
  EXPECT_EQ(round_float(dtypes::float32, std::nextafter(0x1.ffffffp127, 0)), 0x1.fffffep127);
  EXPECT_EQ(round_float(dtypes::float32, 0x1.ffffffp127), kInf);
}

TEST(Rounding, AgreesWithMlDtypes) {
  const auto check = [](DType dtype, const auto& table) {
    for (const auto& [from, to] : table) {
      const Const rounded = convert(from_bits(from, dtypes::float32), dtypes::float32, dtype);
      EXPECT_EQ(rounded, from_bits(to, dtype)) << dtype.name() << " of float32 bits " << std::hex << from;
      if (std::isnan(rounded.as_float())) continue;
      EXPECT_EQ(to_bits(rounded, dtype), to);
    }
  };
  check(dtypes::fp8e4m3, golden::kFP8E4M3);
  check(dtypes::fp8e5m2, golden::kFP8E5M2);
  check(dtypes::float16, golden::kFloat16);
  check(dtypes::bfloat16, golden::kBFloat16);
}

// ---- Bits and text

TEST(Bits, OfEveryNarrowFloatMeanTheirLayout) {
  for (const DType dtype : kNarrowFloats)
    for (uint64_t bits = 0; bits < uint64_t{1} << dtype.bits(); bits++)
      if (!same(from_bits(bits, dtype).as_float(), value_of_bits(dtype, bits)))
        ADD_FAILURE() << dtype.name() << " " << std::hex << bits;
}

TEST(Bits, OfEveryNarrowFloatRoundTrip) {
  for (const DType dtype : kNarrowFloats)
    for (uint64_t bits = 0; bits < uint64_t{1} << dtype.bits(); bits++) {
      const Const value = from_bits(bits, dtype);
      if (!std::isnan(value.as_float())) {
        ASSERT_EQ(to_bits(value, dtype), bits) << dtype.name();
      } else {
        ASSERT_EQ(from_bits(to_bits(value, dtype), dtype), value) << dtype.name();
      }
    }
}

TEST(Bits, OfNaNAreTheQuietOne) {
  const Const nan = Const::of_float(-kNaN);
  EXPECT_EQ(to_bits(nan, dtypes::fp8e4m3), 0x7fu);
  EXPECT_EQ(to_bits(nan, dtypes::fp8e5m2), 0x7eu);
  EXPECT_EQ(to_bits(nan, dtypes::float16), 0x7e00u);
  EXPECT_EQ(to_bits(nan, dtypes::bfloat16), 0x7fc0u);
  EXPECT_EQ(to_bits(nan, dtypes::float32), 0x7fc00000u);
  EXPECT_EQ(to_bits(nan, dtypes::float64), 0x7ff8000000000000u);
}

TEST(Bits, OfRandomPatternsRoundTripInEveryType) {
  std::mt19937_64 random(3);
  for (const DType dtype : dtypes::all)
    for (int i = 0; i < 2000; i++) {
      const uint64_t bits = random() & (~uint64_t{0} >> (64 - dtype.bits()));
      const Const value = from_bits(bits, dtype);
      if (dtype.is_float() && std::isnan(value.as_float())) continue;
      ASSERT_EQ(to_bits(value, dtype), bits) << dtype.name();
      ASSERT_EQ(from_bits(bits, dtype.vec(4)), value) << "a vector stands for its scalar";
    }
}

TEST(Bits, OfIntegersAreTwosComplement) {
  EXPECT_EQ(to_bits(Const::of_int(-1), dtypes::int8), 0xffu);
  EXPECT_EQ(from_bits(0xff, dtypes::int8), Const::of_int(-1));
  EXPECT_EQ(from_bits(0xff, dtypes::uint8), Const::of_int(255));
  EXPECT_EQ(from_bits(~uint64_t{0}, dtypes::uint64), Const::of_int(-1));
  EXPECT_EQ(from_bits(0xabcd80, dtypes::int8), Const::of_int(-128)) << "only the low bits count";
  EXPECT_EQ(from_bits(2, dtypes::bool_), Const::of_bool(true));
}

TEST(Bits, OfInvalidAndOfVoidAreNone) {
  EXPECT_THROW(to_bits(Const::invalid(), dtypes::index), InternalError);
  EXPECT_THROW(to_bits(Const(), dtypes::void_), InternalError);
  EXPECT_THROW(from_bits(0, dtypes::void_), InternalError);
}

TEST(Text, OfEveryNarrowFloatReadsBack) {
  for (const DType dtype : kNarrowFloats)
    for (uint64_t bits = 0; bits < uint64_t{1} << dtype.bits(); bits++) {
      const Const value = from_bits(bits, dtype);
      const std::string text = to_string(value, dtype);
      ASSERT_EQ(parse_const(dtype, text), value) << dtype.name() << " " << text;
      ASSERT_NE(text.find_first_of(".en"), std::string::npos) << "reads as an integer: " << text;
    }
}

TEST(Text, OfRandomFloatsReadsBack) {
  std::mt19937_64 random(4);
  for (const DType dtype : {dtypes::float32, dtypes::float64})
    for (int i = 0; i < 20000; i++) {
      const Const value = from_bits(random(), dtype);
      ASSERT_EQ(parse_const(dtype, to_string(value, dtype)), value) << to_string(value, dtype);
    }
}

// A double in between would be the middle of two floats.
TEST(Text, OfFloat32IsNotRoundedTwice) {
  EXPECT_EQ(to_bits(parse_const(dtypes::float32, "7.038531e-26"), dtypes::float32), 0x15ae43fdu);
}

int significant_digits(std::string text) {
  text = text.substr(0, text.find('e'));
  std::erase(text, '.');
  std::erase(text, '-');
  const size_t first = text.find_first_not_of('0'), last = text.find_last_not_of('0');
  return static_cast<int>(last - first + 1);
}

TEST(Text, OfEightBitFloatsIsTheShortest) {
  for (const DType dtype : {dtypes::fp8e4m3, dtypes::fp8e5m2}) {
    // What is the least number of digits that hits each value? Try every decimal of one and two digits.
    std::vector<int> least(uint64_t{1} << dtype.bits(), 3);
    for (int decimal = 99; decimal > 0; decimal--)
      for (int exponent = -8; exponent <= 6; exponent++) {
        const double number = std::stod(std::to_string(decimal) + "e" + std::to_string(exponent));
        int& digits = least[to_bits(Const::of_float(round_float(dtype, number)), dtype)];
        digits = std::min(digits, decimal < 10 || decimal % 10 == 0 ? 1 : 2);
      }
    for (uint64_t bits = 1; bits < first_special(dtype); bits++) {
      const Const value = from_bits(bits, dtype);
      const std::string text = to_string(value, dtype);
      // Digits of a whole number stand where zeros would: they make it no longer.
      if (text.ends_with(".0")) continue;
      EXPECT_EQ(significant_digits(text), least[bits]) << dtype.name() << " " << text;
    }
  }
}

TEST(Text, Examples) {
  const auto text = [](DType dtype, double value) { return to_string(make_const(dtype, value), dtype); };
  EXPECT_EQ(text(dtypes::float32, 0.5), "0.5");
  EXPECT_EQ(text(dtypes::float32, 1), "1.0");
  EXPECT_EQ(text(dtypes::float32, 1e-7), "1e-07");
  EXPECT_EQ(text(dtypes::float32, 0.1), "0.1");
  EXPECT_EQ(text(dtypes::float64, 0.1), "0.1");
  EXPECT_EQ(text(dtypes::float64, 0.1f), "0.10000000149011612");
  EXPECT_EQ(text(dtypes::float64, 5e-324), "5e-324");
  EXPECT_EQ(text(dtypes::float16, 0.1), "0.1");
  EXPECT_EQ(text(dtypes::bfloat16, 0.1), "0.1");
  EXPECT_EQ(text(dtypes::bfloat16, 1e30), "1e+30");
  EXPECT_EQ(text(dtypes::float16, 65504), "65504.0");
  EXPECT_EQ(text(dtypes::fp8e4m3, 448), "448.0");
  EXPECT_EQ(text(dtypes::fp8e5m2, 0.1), "0.1");
  EXPECT_EQ(text(dtypes::float16, -0.0), "-0.0");
  EXPECT_EQ(text(dtypes::float32, -kInf), "-inf");
  EXPECT_EQ(text(dtypes::fp8e4m3, kInf), "nan");
  EXPECT_EQ(text(dtypes::bool_, 1), "true");
  EXPECT_EQ(text(dtypes::int8, -3), "-3");
  EXPECT_EQ(to_string(Const::of_int(-1), dtypes::uint64), "18446744073709551615");
  EXPECT_EQ(to_string(Const::invalid(), dtypes::index), "invalid");
}

TEST(Text, OfWideIntegers) {
  EXPECT_EQ(to_string(wide{0}), "0");
  EXPECT_EQ(to_string(-(wide{1} << 64)), "-18446744073709551616");
  EXPECT_EQ(to_string((wide{1} << 126) * -2), "-170141183460469231731687303715884105728");
}

TEST(Text, OfLimitsReadsBack) {
  for (const DType dtype : dtypes::all)
    for (const Const value : {min_value(dtype), max_value(dtype)})
      EXPECT_EQ(parse_const(dtype, to_string(value, dtype)), value);
  EXPECT_EQ(parse_const(dtypes::index, "invalid"), Const::invalid());
}

TEST(Text, ThatIsNoConstantIsRefused) {
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x10", "--1", "tru", "1e", "e5", "1,0"})
    for (const DType dtype : dtypes::all) EXPECT_THROW(parse_const(dtype, text), DTypeError) << text;
  EXPECT_THROW(parse_const(dtypes::int8, "128"), DTypeError);
  EXPECT_THROW(parse_const(dtypes::int8, "1.0"), DTypeError);
  EXPECT_THROW(parse_const(dtypes::uint64, "18446744073709551616"), DTypeError);
  EXPECT_THROW(parse_const(dtypes::bool_, "2"), DTypeError);
  EXPECT_THROW(parse_const(dtypes::bool_, "invalid"), DTypeError);
  EXPECT_THROW(parse_const(dtypes::float32, "invalid"), DTypeError);
  EXPECT_THROW(parse_const(dtypes::int32.ptr(), "0"), DTypeError);
}

// ---- Making constants

TEST(MakeConst, TakesWhatFits) {
  for (const DType dtype : kIntegers)
    for (const wide value : {int_min(dtype), wide{0}, wide{1}, int_max(dtype)}) {
      EXPECT_EQ(make_const(dtype, value).integer(dtype), value) << dtype.name();
      EXPECT_TRUE(fits(dtype, value));
    }
  EXPECT_EQ(make_const(dtypes::bool_, 1), Const::of_bool(true));
  EXPECT_EQ(make_const(dtypes::bool_, 0.0), Const::of_bool(false));
  EXPECT_EQ(make_const(dtypes::int32, -3.0), Const::of_int(-3));
  EXPECT_EQ(make_const(dtypes::int32, -0.0), Const::of_int(0));
  EXPECT_EQ(make_const(dtypes::uint64, 0x1p63), Const::of_int(INT64_MIN));
  EXPECT_EQ(make_const(dtypes::float16, 1), Const::of_float(1.0));
  EXPECT_EQ(make_const(dtypes::int8.vec(4), 7), Const::of_int(7));
}

TEST(MakeConst, RefusesWhatDoesNotFit) {
  for (const DType dtype : dtypes::all) {
    if (dtype.is_float()) continue;
    EXPECT_FALSE(fits(dtype, int_max(dtype) + 1));
    EXPECT_FALSE(fits(dtype, int_min(dtype) - 1));
    EXPECT_THROW(make_const(dtype, int_max(dtype) + 1), DTypeError) << dtype.name();
    EXPECT_THROW(make_const(dtype, int_min(dtype) - 1), DTypeError) << dtype.name();
    for (const double value : {0.5, -1e-300, kNaN, kInf, -kInf, 1e300, -1e300, 0x1p64, -0x1.8p63})
      EXPECT_THROW(make_const(dtype, value), DTypeError) << dtype.name() << " " << value;
  }
  EXPECT_THROW(make_const(dtypes::void_, 0), DTypeError);
  EXPECT_THROW(make_const(dtypes::int32.ptr(4), 0), DTypeError);
}

TEST(MakeConst, NamesValueDTypeAndRange) {
  EXPECT_EQ(text_of_error([] { make_const(dtypes::int8, 300); }),
            "300 is not one of the values of int8 (-128 to 127)");
  EXPECT_EQ(text_of_error([] { make_const(dtypes::uint8.vec(4), -1); }),
            "-1 is not one of the values of uint8 (0 to 255)");
  EXPECT_EQ(text_of_error([] { make_const(dtypes::uint64, wide{1} << 64); }),
            "18446744073709551616 is not one of the values of uint64 (0 to 18446744073709551615)");
  EXPECT_EQ(text_of_error([] { make_const(dtypes::int32, 0.5); }),
            "0.5 is not one of the values of int32 (-2147483648 to 2147483647)");
  EXPECT_EQ(text_of_error([] { make_const(dtypes::bool_, kNaN); }),
            "nan is not one of the values of bool (0 to 1)");
  EXPECT_EQ(text_of_error([] { parse_const(dtypes::fp8e4m3, "many"); }),
            "'many' is not one of the values of fp8e4m3 (-448 to 448)");
}

TEST(Const, HasOneNaNAndTwoZeros) {
  EXPECT_EQ(Const::of_float(kNaN), Const::of_float(-kNaN));
  EXPECT_EQ(from_bits(0x7fc00001, dtypes::float32), from_bits(0xff800001, dtypes::float32));
  EXPECT_NE(Const::of_float(0.0), Const::of_float(-0.0));
  EXPECT_NE(Const::of_int(0), Const::of_float(0.0));
  EXPECT_NE(Const::of_int(1), Const::of_bool(true));
}

TEST(Wrap, IsModuloTheWidth) {
  EXPECT_EQ(wrap(dtypes::int8, 128), Const::of_int(-128));
  EXPECT_EQ(wrap(dtypes::uint8, -1), Const::of_int(255));
  EXPECT_EQ(wrap(dtypes::bool_, 3), Const::of_bool(true));
  EXPECT_EQ(wrap(dtypes::bool_, 2), Const::of_bool(false));
  EXPECT_EQ(wrap(dtypes::index, wide{1} << 63), Const::of_int(INT64_MIN));
  std::mt19937_64 random(5);
  for (const DType dtype : kIntegers)
    for (int i = 0; i < 1000; i++) {
      const wide value = static_cast<wide>(random()) * static_cast<int64_t>(random() >> 2) - (wide{1} << 90);
      const wide wrapped = wrap(dtype, value).integer(dtype);
      EXPECT_TRUE(fits(dtype, wrapped));
      EXPECT_EQ(to_string((value - wrapped) % (wide{1} << dtype.bits())), "0") << dtype.name();
    }
}

TEST(Wrap, OfAFloatTypeIsOurMistake) {
  EXPECT_THROW(wrap(dtypes::float32, 0), InternalError);
  EXPECT_THROW(int_min(dtypes::float32), InternalError);
  EXPECT_THROW(round_float(dtypes::int32, 0), InternalError);
}

// ---- Limits

TEST(Limits, AreThoseOfTheType) {
  for (const DType dtype : kFloats) {
    const double largest = max_finite(dtype), step = epsilon(dtype);
    EXPECT_EQ(round_float(dtype, largest), largest);
    if (!dtype.is_fp8()) {
      EXPECT_NE(round_float(dtype, largest * (1 + step)), largest) << "there is a larger one";
    }
    EXPECT_EQ(round_float(dtype, 1 + step), 1 + step);
    EXPECT_EQ(round_float(dtype, 1 + step / 2), 1);
    EXPECT_EQ(min_value(dtype).as_float(), -max_value(dtype).as_float());
    EXPECT_EQ(max_value(dtype).as_float(), dtype == dtypes::fp8e4m3 ? 448 : kInf);
  }
  EXPECT_EQ(epsilon(dtypes::float32), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(epsilon(dtypes::float64), std::numeric_limits<double>::epsilon());
  for (const DType dtype : kIntegers) {
    EXPECT_EQ(min_value(dtype).integer(dtype), int_min(dtype));
    EXPECT_EQ(max_value(dtype).integer(dtype), int_max(dtype));
    EXPECT_EQ(epsilon(dtype), 0);
  }
  EXPECT_EQ(min_value(dtypes::bool_), Const::of_bool(false));
  EXPECT_EQ(max_value(dtypes::bool_), Const::of_bool(true));
  EXPECT_EQ(to_string(int_min(dtypes::int64)), "-9223372036854775808");
  EXPECT_EQ(to_string(int_max(dtypes::uint64)), "18446744073709551615");
}

}  // namespace
}  // namespace quern
