// Loops that are put together or apart, and REDUCEs as loops over registers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "test/codegen/in_line.h"
#include "test/codegen/kernels.h"

namespace quern {
namespace {

using testing::ElementsAre;

TEST(Loops, LoopsThatAreUsedAsOneAreOne) {
  std::vector<float> out(32), in = counting(32);
  const LinearProgram p = run_in_line(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], r0[4] * 8 + r1[8]), INDEX(PARAM(; 1):float32*[32], "
      "r0 * 8 + "
      "r1):float32), r0, r1))",
      out, in);
  EXPECT_EQ(out, in);
  EXPECT_EQ(count(p, Op::RANGE), 1);
  const LinearProgram transposed = run_in_line(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], r0[4] * 8 + r1[8]), INDEX(PARAM(; 1):float32*[32], "
      "r1 * 4 + "
      "r0):float32), r0, r1))",
      out, in);
  EXPECT_EQ(count(transposed, Op::RANGE), 2);
}

// Weights in blocks of 32, each with a scale, times a vector; the blocks' halves are those of nibbles.
TEST(Loops, LoopsAreCutWhereIndicesAndGatesTakeThemApart) {
  std::vector<float> out(1), weights = counting(64), scales = counting(4), x(128, 2);
  const LinearProgram p = run_in_line(R"(
    %low = INDEX(PARAM(; 1):float32*[64], r0[128, REDUCE] // 32 * 16 + r0 % 16):float32
    %w = where(r0 % 32 < 16, %low, %low * 3.0)
    %s = INDEX(PARAM(; 2):float32*[4], r0 // 32):float32
    %y = REDUCE(%w * %s * INDEX(PARAM(; 3):float32*[128], r0):float32, r0; {op: ADD})
    SINK(STORE(INDEX(PARAM(; 0):float32*[1], 0), %y)))",
                                      out, weights, scales, x);
  EXPECT_EQ(count(p, Op::RANGE), 3);
  EXPECT_EQ(count(p, Op::FLOORDIV) + count(p, Op::FLOORMOD) + count(p, Op::AND) + count(p, Op::SHR), 0);
  float expected = 0;
  for (size_t i = 0; i < 64; i++) expected += weights[i] * scales[i / 16] * (2 + 3 * 2);
  EXPECT_THAT(out, ElementsAre(expected));
}

TEST(Loops, LoopsAreNotCutIntoUnequalOrManyOrShortParts) {
  std::vector<float> out(60), in = counting(60);
  const auto loops = [&](const std::string& index) {
    return count(
        run_in_line(fmt::format("SINK(END(STORE(INDEX(PARAM(; 0):float32*[60], r0[60]), INDEX(PARAM(; "
                                "1):float32*[60], {}):float32), r0))",
                                index),
                    out, in),
        Op::RANGE);
  };
  EXPECT_EQ(loops("r0 // 20 + r0 % 20"), 2);
  EXPECT_EQ(loops("r0 // 7"), 1);                      // 7 does not divide 60
  EXPECT_EQ(loops("r0 // 2 + r0 % 2"), 1);             // lanes along 2 steps are no lanes
  EXPECT_EQ(loops("where(r0 < 20, 20 - r0, r0)"), 2);  // a third and the others
  EXPECT_EQ(loops("where(r0 < 25, 25 - r0, r0)"), 1);  // parts that differ
  EXPECT_EQ(loops("where(r0 < 10, 10 - r0, r0)"), 1);  // parts that are many
}

TEST(Loops, AccumulationsOverOneRangeAreOneLoopUnlessOneNeedsTheOther) {
  std::vector<float> out(2), in = counting(5);
  const LinearProgram together = run_in_line(R"(
    %x = INDEX(PARAM(; 1):float32*[5], r0[5, REDUCE]):float32
    %a = REDUCE(%x, r0; {op: ADD})
    %b = REDUCE(%x, r0; {op: MAX})
    %out = PARAM(; 0):float32*[2]
    SINK(STORE(INDEX(%out, 0), %a), STORE(INDEX(%out, 1), %b)))",
                                             out, in);
  EXPECT_THAT(out, ElementsAre(10, 4));
  EXPECT_EQ(count(together, Op::RANGE), 1);
  EXPECT_EQ(count(together, Op::LOAD), 5);  // one of the input, two of each accumulator
  const LinearProgram apart = run_in_line(R"(
    %x = INDEX(PARAM(; 1):float32*[5], r0[5, REDUCE]):float32
    %a = REDUCE(%x, r0; {op: ADD})
    %b = REDUCE(%x * %a, r0; {op: MAX})
    %out = PARAM(; 0):float32*[2]
    SINK(STORE(INDEX(%out, 0), %a), STORE(INDEX(%out, 1), %b)))",
                                          out, in);
  EXPECT_THAT(out, ElementsAre(10, 40));
  EXPECT_EQ(count(apart, Op::RANGE), 2);
}

TEST(Loops, NestedReducesOverTheSameRanges) {
  std::vector<float> out(2), in = counting(6);
  run_in_line(R"(
    %x = INDEX(PARAM(; 1):float32*[6], r0[2, REDUCE] * 3 + r1[3, REDUCE]):float32
    %a = REDUCE(REDUCE(%x, r1; {op: MAX}), r0; {op: ADD})
    %b = REDUCE(REDUCE(%x * %a, r1; {op: ADD}) * %a, r0; {op: MAX})
    %out = PARAM(; 0):float32*[2]
    SINK(STORE(INDEX(%out, 0), %a), STORE(INDEX(%out, 1), %b)))",
              out, in);
  EXPECT_THAT(out, ElementsAre(7, 588));
}

TEST(Loops, AccumulatorsDoNotCollideWithRegistersOfTheKernel) {
  std::vector<float> out(2), in = counting(6);
  run_in_line(R"(
    %reg = DEFINE_REG(; 0):float32*[1]@REG
    %start = STORE(INDEX(AFTER(%reg, r0[2]), 0), 100.0:float32)
    %acc = INDEX(AFTER(%reg, %start, r1[3]), 0)
    %x = LOAD(INDEX(PARAM(; 1):float32*[6], r0 * 3 + r1))
    %add = END(STORE(%acc, LOAD(%acc) + %x), r1)
    %sum = REDUCE(LOAD(INDEX(PARAM(; 1):float32*[6], r0 * 3 + r2[3, REDUCE])), r2; {op: ADD})
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[2], r0), LOAD(INDEX(AFTER(%reg, %add), 0)) + %sum), r0)))",
              out, in);
  EXPECT_THAT(out, ElementsAre(106, 124));
}

TEST(Loops, KindsThatNobodyExpandedAreLoops) {
  std::vector<float> out(4), in = counting(24);
  run_in_line(R"(
    %x = LOAD(INDEX(PARAM(; 1):float32*[24], r0[2, UPCAST] * 12 + r1[2, THREAD] * 6 + r2[3, UNROLL] * 2 + r3[2, GROUP_REDUCE]))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r0 * 2 + r1), REDUCE(%x, r2, r3; {op: ADD})), r0, r1)))",
              out, in);
  EXPECT_THAT(out, ElementsAre(15, 51, 87, 123));
}

TEST(Loops, ReducesOverNothingAndOfOneStep) {
  std::vector<float> out(1), in = {-0.0F};
  const LinearProgram p = run_in_line(
      "SINK(STORE(INDEX(PARAM(; 0):float32*[1], 0), REDUCE(INDEX(PARAM(; 1):float32*[1], r0[1, "
      "REDUCE]):float32, r0; "
      "{op: ADD})))",
      out, in);
  EXPECT_EQ(count(p, Op::RANGE), 0);
  EXPECT_FALSE(std::signbit(out[0]));  // 0.0 + -0.0
}

}  // namespace
}  // namespace quern
