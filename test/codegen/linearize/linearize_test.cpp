// Where a value stands in the list, and in which order stores come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "test/codegen/in_line.h"
#include "test/codegen/kernels.h"

namespace quern {
namespace {

using testing::ElementsAre;

TEST(Linearize, StoresOfAGroupWaitForAllValues) {
  std::vector<float> a = counting(3), b(3);
  run_in_line(R"(
    %a = PARAM(; 0):float32*[3]
    %x = INDEX(%a, r0[3]):float32
    SINK(END(GROUP(STORE(INDEX(%a, r0), %x + 1.0), STORE(INDEX(PARAM(; 1):float32*[3], r0), %x * 2.0)), r0)))",
              a, b);
  EXPECT_THAT(a, ElementsAre(1, 2, 3));
  EXPECT_THAT(b, ElementsAre(0, 2, 4));
}

TEST(Linearize, WhatDoesNotChangeStandsOutsideOfTheLoop) {
  std::vector<float> out(6), in = counting(2);
  const LinearProgram p = run_in_line(R"(
    %x = LOAD(INDEX(PARAM(; 1):float32*[2], r0[2])) * 3.0
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[6], r1[3] * 2 + r0), %x + CAST(r1):float32), r0, r1)))",
                                      out, in);
  EXPECT_THAT(out, ElementsAre(0, 3, 1, 4, 2, 5));
  const auto at = [&](auto matches) { return std::ranges::find_if(p.list, matches) - p.list.begin(); };
  const auto load = at([](const UOp& u) { return u.op() == Op::LOAD; });
  const auto inner = at([](const UOp& u) { return u.op() == Op::RANGE && u.arg().range().id == 1; });
  EXPECT_LT(load, inner);
}

}  // namespace
}  // namespace quern
