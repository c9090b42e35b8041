// What the heuristic says of products, on a machine of given caches: lanes, tiles, threads, and what is
// packed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/codegen/choose/heuristic.h"
#include "quern/codegen/lower.h"
#include "quern/codegen/opt/opt.h"
#include "quern/ir/text/parse.h"

namespace quern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

DeviceSpec machine(int64_t cores = 1) {
  DeviceSpec spec;
  spec.parallel.cores = cores;
  spec.parallel.vector_bytes = 32;
  spec.memory.registers = 16;
  spec.memory.l1_bytes = 32 << 10, spec.memory.l2_bytes = 512 << 10, spec.memory.l3_bytes = 32 << 20;
  spec.has_fma = true;
  return spec;
}

// The opts of a product of m x k and k x n numbers, the second of which may be kept as n x k.
std::optional<Optimisable> optimisable(int64_t m, int64_t k, int64_t n, bool transposed = false,
                                       int64_t cores = 1) {
  const std::string second =
      transposed ? fmt::format("r1[{}] * {} + r2", n, k) : fmt::format("r2 * {} + r1[{}]", n, n);
  const UOp kernel = parse(fmt::format(
      R"(%a = INDEX(PARAM(; 1):float32*[{}], r0[{}] * {} + r2[{}, REDUCE]):float32
         %b = INDEX(PARAM(; 2):float32*[{}], {}):float32
         SINK(END(STORE(INDEX(PARAM(; 0):float32*[{}], r0 * {} + r1), REDUCE(%a * %b, r2; {{op: ADD}})), r0, r1)))",
      m * k, m, k, k, k * n, second, m * n, n));
  return before_opts(kernel, machine(cores));
}
std::string chosen(int64_t m, int64_t k, int64_t n, bool transposed = false, int64_t cores = 1) {
  const std::optional<Optimisable> found = optimisable(m, k, n, transposed, cores);
  return found ? to_text(heuristic_opts(found->program, found->spec)) : "none";
}

// What is chosen and does not apply would be left out, with all behind it.
TEST(Heuristic, WhatIsChosenApplies) {
  for (const int64_t n : {100, 512, 1000, 2048, 4096, 5000, 8192, 16384})
    for (const int64_t cores : {1, 2, 8}) {
      const std::optional<Optimisable> found = optimisable(n, n, n, false, cores);
      ASSERT_TRUE(found);
      for (const Opts& opts : {found->chosen, heuristic_opts(found->program, found->spec)})
        EXPECT_NO_THROW((void)apply_opts(found->program, opts, found->spec)) << n << " on " << cores;
    }
}

TEST(Heuristic, ColumnsThatFitTheSecondCacheArePacked) {
  EXPECT_EQ(chosen(512, 512, 512), "BLOCK(1, 128) PACK(1, 2) UPCAST(1, 8) UPCAST(1, 2) UPCAST(0, 4)");
}

TEST(Heuristic, ALongReduceIsInBlocks) {
  EXPECT_THAT(chosen(2048, 2048, 2048), AllOf(HasSubstr("BLOCK(2, 256)"), HasSubstr("BLOCK(0, 256)"),
                                              HasSubstr("PACK(2, 2)"), HasSubstr("PACK(0, 1)")));
  // what waits for the next block is not larger than half of the third cache
  EXPECT_THAT(chosen(16384, 2048, 16384), HasSubstr("BLOCK(1, 256)"));
  // a number of tiles that nothing divides: a few more, in blocks as large as others
  EXPECT_THAT(chosen(2048, 2048, 16 * 1009), AllOf(HasSubstr("PADTO(1, 2032)"), HasSubstr("BLOCK(1, 2032)")));
  // few columns: what is packed of rows would be used too seldom
  EXPECT_THAT(chosen(2048, 2048, 64), Not(HasSubstr("BLOCK(2, ")));
}

TEST(Heuristic, WhatIsPackedIsPadded) {
  EXPECT_THAT(chosen(128, 512, 100), AllOf(HasSubstr("PADTO(1, 16)"), HasSubstr("UPCAST(1, 8)")));
  EXPECT_THAT(chosen(300, 300, 300), AllOf(HasSubstr("PADTO(1, 8)"), HasSubstr("UPCAST(1, 8)")));
}

// Weights as layers keep them, and few rows to multiply with: the rows are packed, not the weights.
TEST(Heuristic, LanesAlongRowsIfTheOtherOperandWouldHaveToBeTurned) {
  EXPECT_THAT(chosen(16, 4096, 4096, true), AllOf(HasSubstr("PACK(0, 1)"), HasSubstr("UPCAST(0, 8)"),
                                                  Not(HasSubstr("PACK(1, 2)")), Not(HasSubstr("BLOCK"))));
  EXPECT_THAT(chosen(4096, 4096, 16, true), AllOf(HasSubstr("UPCAST(1, 8)"), Not(HasSubstr(", 1) PACK"))));
}

// Products with the channels of pictures, which are stored behind each other, on a machine with long vectors.
std::string chosen_for_pictures(int64_t batch, int64_t channels, int64_t pixels, int64_t out) {
  DeviceSpec spec = machine();
  spec.parallel.vector_bytes = 64, spec.memory.registers = 32, spec.memory.l2_bytes = 1 << 20;
  const UOp kernel = parse(fmt::format(
      R"(%x = INDEX(PARAM(; 1):float32*[{}], r0[{}] * {} + r3[{}, REDUCE] * {} + r2[{}]):float32
         %w = INDEX(PARAM(; 2):float32*[{}], r1[{}] * {} + r3):float32
         %y = STORE(INDEX(PARAM(; 0):float32*[{}], r0 * {} + r1 * {} + r2), REDUCE(%x * %w, r3; {{op: ADD}}))
         SINK(END(%y, r0, r1, r2)))",
      batch * channels * pixels, batch, channels * pixels, channels, pixels, pixels, out * channels, out,
      channels, batch * out * pixels, out * pixels, pixels));
  const std::optional<Optimisable> found = before_opts(kernel, spec);
  return found ? to_text(heuristic_opts(found->program, found->spec)) : "none";
}

TEST(Heuristic, LanesThatAreNotStoredTogether) {
  const std::string many = chosen_for_pictures(64, 2048, 49, 512);
  EXPECT_THAT(many, AllOf(HasSubstr("UPCAST(1, 16) UPCAST(1, 2)"), Not(HasSubstr("BLOCK(3, "))))
      << "no sums wait in memory in another order than that of lanes, and the tile is not large";
  EXPECT_THAT(chosen_for_pictures(1, 512, 7, 512), HasSubstr("PADTO(1, 8) PACK(1, 1) UPCAST(1, 8)"))
      << "few pixels: a shorter vector of them, with little around it";
}

TEST(Heuristic, ThreadsShareTheLoopOverWhatIsLarge) {
  EXPECT_THAT(chosen(32, 4096, 4096, false, 2), HasSubstr("THREAD(1, 2)"));
  EXPECT_THAT(chosen(32, 4096, 4096, true, 2), HasSubstr("THREAD(1, 2)"));
  EXPECT_THAT(chosen(4096, 4096, 32, true, 2), HasSubstr("THREAD(0, 2)"));
}

}  // namespace
}  // namespace quern
