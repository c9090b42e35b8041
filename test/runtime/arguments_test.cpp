// What is checked of the arguments of a run.
#include "quern/runtime/arguments.h"

#include <gtest/gtest.h>

#include <array>

#include "test/error_of.h"

namespace quern {
namespace {

Parameter floats(int64_t slot, int64_t elements, bool written = false) {
  return {.slot = slot, .elements = elements, .element_bytes = 4, .written = written, .dtype = "float32"};
}

TEST(Arguments, AreThereAndLargeEnough) {
  std::array<float, 4> memory{};
  const std::array given{Argument{memory.data(), 16}};
  EXPECT_EQ(argument_of(floats(0, 4), given, "k").memory, memory.data());
  EXPECT_EQ(argument_of(floats(0, -1), given, "k").bytes, 16) << "any number of elements";
  EXPECT_EQ(error_of([&] { argument_of(floats(1, 4), given, "k"); }),
            "kernel k: PARAM 1 has no argument, 1 are given");
  EXPECT_EQ(error_of([&] { argument_of(floats(0, 5), given, "k"); }),
            "kernel k: PARAM 0 needs 5 elements of float32, its argument has 16 bytes");
}

TEST(Arguments, VariablesAreWithinTheirBounds) {
  const VariableValues values{{"n", 3}};
  const auto error = [&](const char* name, int64_t min, int64_t max) {
    return error_of([&] { value_of(name, min, max, values, "k"); });
  };
  EXPECT_EQ(value_of("n", 1, 3, values, "k"), 3);
  EXPECT_EQ(error("n", 4, 8), "kernel k: variable n is 3, not from 4 to 8");
  EXPECT_EQ(error("n", 0, 2), "kernel k: variable n is 3, not from 0 to 2");
  EXPECT_EQ(error("m", 0, 9), "kernel k: variable m has no value");
}

TEST(Arguments, Overlap) {
  std::array<float, 8> memory{};
  const std::array params{floats(0, 4, true), floats(1, 4)};
  const std::array reading{floats(0, 4), floats(1, 4)};
  const auto overlaps = [&](const auto& of, size_t second) {
    return overlap(of, std::array{Argument{memory.data(), 16}, Argument{&memory[second], 16}});
  };
  EXPECT_TRUE(overlaps(params, 0));
  EXPECT_TRUE(overlaps(params, 3));
  EXPECT_FALSE(overlaps(params, 4)) << "they are neighbours";
  EXPECT_FALSE(overlaps(reading, 0)) << "nothing is written";
  EXPECT_FALSE(overlap(std::array{floats(0, 8, true)}, std::array{Argument{memory.data(), 32}}));
}

}  // namespace
}  // namespace quern
