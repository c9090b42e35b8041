// Constants of one dtype as constants of another.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "test/ir/scalars.h"

namespace quern {
namespace {

// Rounds an integer to the float type by integer arithmetic.
double nearest_to_integer(DType dtype, wide value) {
  const int precision = 1 - static_cast<int>(std::log2(epsilon(dtype)));
  const wide magnitude = value < 0 ? -value : value;
  int dropped = 0;
  while ((magnitude >> dropped) >> precision != 0) dropped++;
  wide kept = magnitude >> dropped;
  if (dropped > 0) {
    const wide rest = magnitude - (kept << dropped), half = wide{1} << (dropped - 1);
    if (rest > half || (rest == half && kept % 2 == 1)) kept++;
  }
  double result = std::ldexp(static_cast<double>(static_cast<int64_t>(kept)), dropped);
  if (result > max_finite(dtype)) result = dtype.is_fp8() ? max_finite(dtype) : kInf;
  return value < 0 ? -result : result;
}

TEST(Conversion, OfIntegersToFloatsRoundsOnce) {
  std::vector<wide> values;
  for (int high = 0; high < 64; high++)
    for (int low = 0; low <= high; low++)
      for (int lowest = 0; lowest <= 1; lowest++)
        for (const int sign : {1, -1})
          for (const int off : {-1, 0, 1})
            values.push_back(sign * ((wide{1} << high) + (wide{lowest} << low) + off +
                                     (high > 12 ? wide{3} << (high - 7) : 0)));
  std::mt19937_64 random(6);
  for (int i = 0; i < 5000; i++) values.push_back(static_cast<int64_t>(random()) >> random() % 64);
  for (const DType to : kFloats)
    for (const wide value : values) {
      EXPECT_PRED2(same, make_const(to, value).as_float(), nearest_to_integer(to, value)) << to_string(value);
      for (const DType from : {dtypes::int64, dtypes::uint64})
        if (fits(from, value)) {
          EXPECT_PRED2(same, convert(wrap(from, value), from, to).as_float(), nearest_to_integer(to, value))
              << from.name() << " " << to_string(value) << " to " << to.name();
        }
    }
}

TEST(Conversion, OfIntegersToFloatsRoundsOnceInTheKnownCases) {
  const auto to_float = [](DType from, wide value, DType to) {
    return convert(make_const(from, value), from, to).as_float();
  };
  // Just above the middle of two floats; the nearest double is the middle.
  EXPECT_EQ(to_float(dtypes::uint64, (wide{1} << 63) + (wide{1} << 39) + 1, dtypes::float32), 0x1.000002p63);
  EXPECT_EQ(to_float(dtypes::int64, (wide{1} << 60) + (wide{1} << 52) + 1, dtypes::bfloat16), 0x1.02p60);
  EXPECT_EQ(to_float(dtypes::int64, -(wide{1} << 60) - (wide{1} << 52) - 1, dtypes::bfloat16), -0x1.02p60);
  EXPECT_EQ(make_const(dtypes::bfloat16, (wide{1} << 120) + (wide{1} << 112) + 1).as_float(), 0x1.02p120);
  EXPECT_EQ(to_float(dtypes::uint64, (wide{1} << 64) - 1, dtypes::float64), 0x1p64);
  EXPECT_EQ(to_float(dtypes::int32, 65520, dtypes::float16), kInf);
  EXPECT_EQ(to_float(dtypes::int32, 465, dtypes::fp8e4m3), 448);
}

TEST(Conversion, OfFloatsToIntegersTruncatesAndSaturates) {
  for (const DType from : kFloats)
    for (const DType to : kIntegers) {
      const auto to_integer = [&](double value) {
        return convert(Const::of_float(value), from, to).integer(to);
      };
      const auto text = [](wide value) { return to_string(value); };
      EXPECT_EQ(text(to_integer(kNaN)), "0") << from.name() << " to " << to.name();
      EXPECT_EQ(text(to_integer(kInf)), text(int_max(to)));
      EXPECT_EQ(text(to_integer(-kInf)), text(int_min(to)));
      EXPECT_EQ(text(to_integer(-0.0)), "0");
      EXPECT_EQ(text(to_integer(1.75)), "1");
      EXPECT_EQ(text(to_integer(-1.75)), to.is_unsigned() ? "0" : "-1");
      EXPECT_EQ(text(to_integer(-0.75)), "0");
      // Around both limits, in steps of the float type.
      const double top = std::ldexp(1, to.bits() - (to.is_unsigned() ? 0 : 1));
      if (top >= max_finite(from)) continue;
      const double below = top - top * epsilon(from) / 2;
      EXPECT_EQ(text(to_integer(top)), text(int_max(to))) << from.name() << " to " << to.name();
      EXPECT_EQ(text(to_integer(below)), text(std::min(static_cast<wide>(below), int_max(to))));
      if (to.is_unsigned()) continue;
      EXPECT_EQ(text(to_integer(-top)), text(int_min(to)));
      EXPECT_EQ(text(to_integer(-top * (1 + epsilon(from)))), text(int_min(to)));
      EXPECT_EQ(text(to_integer(-below)), text(static_cast<wide>(-below)));
    }
}

TEST(Conversion, BetweenIntegersWraps) {
  for (const DType from : kIntegers)
    for (const DType to : kIntegers)
      for (const wide value : {int_min(from), int_min(from) + 1, wide{0}, wide{1}, wide{100}, int_max(from)})
        EXPECT_EQ(convert(make_const(from, value), from, to), wrap(to, value))
            << from.name() << " to " << to.name();
}

TEST(Conversion, ToBoolAsksWhetherItIsZero) {
  for (const DType from : kFloats) {
    for (const double value : {1.0, -0.5, kInf, kNaN})
      EXPECT_EQ(convert(Const::of_float(value), from, dtypes::bool_), Const::of_bool(true));
    for (const double value : {0.0, -0.0})
      EXPECT_EQ(convert(Const::of_float(value), from, dtypes::bool_), Const::of_bool(false));
  }
  for (const DType from : kIntegers)
    for (const wide value : {int_min(from), wide{0}, wide{2}, int_max(from)})
      EXPECT_EQ(convert(make_const(from, value), from, dtypes::bool_), Const::of_bool(value != 0));
}

TEST(Conversion, OfBoolIsZeroOrOne) {
  for (const DType to : dtypes::all)
    for (const bool value : {false, true})
      EXPECT_EQ(convert(Const::of_bool(value), dtypes::bool_, to), make_const(to, value ? 1 : 0))
          << to.name();
}

TEST(Conversion, BetweenFloatsRounds) {
  std::mt19937_64 random(7);
  for (const DType from : kFloats)
    for (const DType to : kFloats)
      for (int i = 0; i < 500; i++) {
        const Const value = from_bits(random(), from);
        EXPECT_PRED2(same, convert(value, from, to).as_float(), round_float(to, value.as_float()));
      }
  EXPECT_TRUE(std::isnan(convert(Const::of_float(kInf), dtypes::float16, dtypes::fp8e4m3).as_float()));
}

TEST(Conversion, ToTheSameTypeChangesNothing) {
  std::mt19937_64 random(8);
  for (const DType dtype : dtypes::all)
    for (int i = 0; i < 500; i++) {
      const Const value = from_bits(random(), dtype);
      EXPECT_EQ(convert(value, dtype, dtype), value) << dtype.name();
    }
}

TEST(Conversion, OfInvalidIsInvalid) {
  for (const DType to : dtypes::all) EXPECT_TRUE(convert(Const::invalid(), dtypes::index, to).is_invalid());
}

}  // namespace
}  // namespace quern
