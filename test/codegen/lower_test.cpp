// Kernels in IR text, lowered and run in line on INTERP: they compute what INTERP computes from the kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "test/codegen/in_line.h"
#include "test/codegen/kernels.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Lower, Elementwise) {
  std::vector<float> out(4), in = counting(4);
  const LinearProgram p = run_in_line(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r0[4]), INDEX(PARAM(; 1):float32*[4], r0):float32 * "
      "2.0 + "
      "1.0), r0); {name: \"twice\"})",
      out, in);
  EXPECT_THAT(out, ElementsAre(1, 3, 5, 7));
  EXPECT_EQ(p.name, "twice");
  EXPECT_EQ(p.text(), R"(  %0 = PARAM(0):float32*[4]
  %1 = PARAM(1):float32*[4]
  %2 = RANGE(4; r0, LOOP):int32
    %3 = INDEX(%0, %2):float32*[4]
    %4 = INDEX(%1, %2):float32*[4]
    %5 = LOAD(%4):float32
    %6 = MUL(%5, 2.0):float32
    %7 = ADD(%6, 1.0):float32
    STORE(%3, %7)
  END %2
)");
}

TEST(Lower, SiblingLoopsUnderOneRow) {
  std::vector<float> out(6), in = {1, 5, 3, 4, 4, 8};
  const LinearProgram p = run_in_line(R"(
    %p = PARAM(; 1):float32*[6]
    %m = REDUCE(INDEX(%p, r0[2] * 3 + r1[3, REDUCE]):float32, r1; {op: MAX})
    %s = REDUCE(INDEX(%p, r0 * 3 + r2[3, REDUCE]):float32 - %m, r2; {op: ADD})
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[6], r0 * 3 + r3[3]), INDEX(%p, r0 * 3 + r3):float32 - %m + %s), r0, r3)))",
                                      out, in);
  EXPECT_THAT(out, ElementsAre(-10, -6, -8, -12, -12, -8));
  EXPECT_EQ(count(p, Op::RANGE), 4);
}

TEST(Lower, ReduceOfSeveralValues) {  // the greatest, and where it is
  std::vector<int32_t> out(2), in = {3, 9, 4, 9};
  run_in_line(R"(
    %x = LOAD(INDEX(PARAM(; 1):int32*[4], r0[4, REDUCE]))
    %a = STATE(0):int32
    %b = STATE(2):int32
    %body = TUPLE(max(%a, %b), where(%a < %b, STATE(3):int32, STATE(1):int32))
    %r = REDUCE(%x, CAST(r0):int32, -2147483648:int32, -1:int32, %body, r0; {op: NOOP, states: 2})
    %out = PARAM(; 0):int32*[2]
    SINK(STORE(INDEX(%out, 0), GETTUPLE(%r; 0):int32), STORE(INDEX(%out, 1), GETTUPLE(%r; 1):int32)))",
              out, in);
  EXPECT_THAT(out, ElementsAre(9, 1));
}

TEST(Lower, LocalMemoryAndBarriersWithoutWorkgroups) {  // each workgroup reverses its part
  std::vector<float> out(8), in = counting(8);
  const std::string store =
      "STORE(INDEX(%l, r1[4, LOCAL]), LOAD(INDEX(PARAM(; 1):float32*[8], r0[2, GLOBAL] * 4 + r1)))";
  for (const std::string& filled : {"END(" + store + ", r1)", store}) {
    out.assign(8, -1);
    run_in_line("%l = DEFINE_LOCAL(; 0):float32*[4]@LOCAL\n%f = BARRIER(" + filled + R"()
        %x = LOAD(INDEX(AFTER(%l, %f), 3 - r1))
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0 * 4 + r1), %x), r0, r1)))",
                out, in);
    EXPECT_THAT(out, ElementsAre(3, 2, 1, 0, 7, 6, 5, 4));
  }
}

TEST(Lower, VariablesAndLargeIndices) {
  std::vector<float> out(8, -1);
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0[$n[1..8]]), CAST(r0 + $n):float32), r0); {name: "
      "\"k\"})");
  run_in_line(kernel, {{"n", 3}}, out);
  EXPECT_THAT(out, ElementsAre(3, 4, 5, -1, -1, -1, -1, -1));
  const LinearProgram large = lower(parse("SINK(END(STORE(INDEX(PARAM(; 0):float32*[12000000000], "
                                          "r0[3000000] * 4000 + r1[4000]), 0.0:float32), r1, r0))"),
                                    plain());
  EXPECT_THAT(large.text(), HasSubstr("int64"));
}

TEST(Lower, WrongKernelsAreErrors) {
  EXPECT_THROW(lower(parse("1 + 2"), plain()), Error);
  EXPECT_THROW(lower(parse("SINK(STORE(INDEX(PARAM(; 0):float32*[4], r0[4]), 1.0:float32))"), plain()),
               Error);
}

TEST(Lower, WhatTheDeviceLacksIsAnError) {
  EXPECT_THROW(
      lower(parse("SINK(STORE(INDEX(PARAM(; 0):float32*[4], SPECIAL(4; \"g\")), 1.0:float32))"), plain()),
      Error);
}

TEST(Lower, DeepGraphsAndManyReduces) {
  std::vector<int32_t> out(3);
  auto kernel = [](const UOp& value) {
    const UOp r = UOp::range(3, 0), p = UOp::make(Op::PARAM, dtypes::int32.ptr(3), {}, 0);
    const UOp at = UOp::make(Op::INDEX, dtypes::int32.ptr(3), {p, r});
    return UOp::sink(
        UOps{UOp::make(Op::END, dtypes::void_, {UOp::make(Op::STORE, dtypes::void_, {at, value}), r})});
  };
  UOp x = UOp::range(3, 0).cast(dtypes::int32);
  for (int i = 0; i < 30000; i++)
    x = UOp::make(Op::XOR, dtypes::int32,
                  {x, UOp::make(Op::MUL, dtypes::int32, {x, UOp::constant(dtypes::int32, i + 2)})});
  run_in_line(kernel(x), {}, out);
  x = UOp::range(3, 0).cast(dtypes::int32);
  for (int i = 1; i <= 3000; i++)
    x = UOp::make(Op::REDUCE, dtypes::int32, {x + i % 2, UOp::range(2, i, AxisKind::REDUCE)},
                  ReduceArg{.op = Op::MAX, .axes = {}, .states = 1});
  run_in_line(kernel(x), {}, out);
  EXPECT_THAT(out, ElementsAre(1500, 1501, 1502));
}

}  // namespace
}  // namespace quern
