// Loads and stores whose address has a gate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/codegen/in_line.h"
#include "test/codegen/kernels.h"

namespace quern {
namespace {

using testing::ElementsAre;

TEST(Gates, CloseLoadsAndStores) {
  std::vector<float> out(4, -1), in = counting(2);
  const LinearProgram p = run_in_line(R"(
    %i = where(r0[4] < 2, r0, invalid:index)
    %x = LOAD(INDEX(PARAM(; 1):float32*[2], %i + 0))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], where(r0 < 3, 3 - r0, invalid:index)), %x + 10.0), r0)))",
                                      out, in);
  EXPECT_THAT(out, ElementsAre(-1, 10, 11, 10));
  EXPECT_EQ(count(p, Op::IF), 1);
}

TEST(Gates, ThatAreNeverOpen) {
  std::vector<float> out(4, -1), in = counting(2);
  const LinearProgram p = run_in_line(R"(
    %x = LOAD(INDEX(PARAM(; 1):float32*[2], where(r0[4] < 0, r0, invalid:index)))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r0), %x), r0),
         END(STORE(INDEX(PARAM(; 0):float32*[4], where(r1[4] < 0, r1, invalid:index)), 7.0:float32), r1)))",
                                      out, in);
  EXPECT_THAT(out, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(count(p, Op::STORE), 1);
}

}  // namespace
}  // namespace quern
