// Kernels in IR text, lowered and run in line on INTERP: they compute what INTERP computes from the kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/codegen/linearize/linearize.h"
#include "quern/codegen/lower.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/interp/program.h"
#include "test/codegen/kernels.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DeviceSpec plain() {
  DeviceSpec spec;
  spec.has_fp8 = spec.has_bfloat16 = spec.has_float16 = false;
  return spec;
}

template <class... Arrays>
LinearProgram run_in_line(const UOp& kernel, const VariableValues& variables, Arrays&... arrays) {
  const std::vector<Argument> arguments = {
      Argument{arrays.data(), static_cast<int64_t>(arrays.size() * sizeof(arrays[0]))}...};
  const UOp graph = lower_to_program(kernel, plain());
  check(graph, Level::program, "lower");
  const LinearProgram program = linearize(graph);
  check(program);
  interp::InterpProgram(program).run(arguments, variables);
  return program;
}
template <class... Arrays>
LinearProgram run_in_line(const std::string& kernel, Arrays&... arrays) {
  return run_in_line(parse(kernel), {}, arrays...);
}

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

TEST(Lower, LoopsThatAreUsedAsOneAreOne) {
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

TEST(Lower, AccumulationsOverOneRangeAreOneLoopUnlessOneNeedsTheOther) {
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

TEST(Lower, NestedReducesOverTheSameRanges) {
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

TEST(Lower, GatesCloseLoadsAndStores) {
  std::vector<float> out(4, -1), in = counting(2);
  const LinearProgram p = run_in_line(R"(
    %i = where(r0[4] < 2, r0, invalid:index)
    %x = LOAD(INDEX(PARAM(; 1):float32*[2], %i + 0))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], where(r0 < 3, 3 - r0, invalid:index)), %x + 10.0), r0)))",
                                      out, in);
  EXPECT_THAT(out, ElementsAre(-1, 10, 11, 10));
  EXPECT_EQ(count(p, Op::IF), 1);
}

TEST(Lower, GatesThatAreNeverOpen) {
  std::vector<float> out(4, -1), in = counting(2);
  const LinearProgram p = run_in_line(R"(
    %x = LOAD(INDEX(PARAM(; 1):float32*[2], where(r0[4] < 0, r0, invalid:index)))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r0), %x), r0),
         END(STORE(INDEX(PARAM(; 0):float32*[4], where(r1[4] < 0, r1, invalid:index)), 7.0:float32), r1)))",
                                      out, in);
  EXPECT_THAT(out, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(count(p, Op::STORE), 1);
}

TEST(Lower, StoresOfAGroupWaitForAllValues) {
  std::vector<float> a = counting(3), b(3);
  run_in_line(R"(
    %a = PARAM(; 0):float32*[3]
    %x = INDEX(%a, r0[3]):float32
    SINK(END(GROUP(STORE(INDEX(%a, r0), %x + 1.0), STORE(INDEX(PARAM(; 1):float32*[3], r0), %x * 2.0)), r0)))",
              a, b);
  EXPECT_THAT(a, ElementsAre(1, 2, 3));
  EXPECT_THAT(b, ElementsAre(0, 2, 4));
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

TEST(Lower, AccumulatorsDoNotCollideWithRegistersOfTheKernel) {
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

TEST(Lower, KindsThatNobodyExpandedAreLoops) {
  std::vector<float> out(4), in = counting(24);
  run_in_line(R"(
    %x = LOAD(INDEX(PARAM(; 1):float32*[24], r0[2, UPCAST] * 12 + r1[2, THREAD] * 6 + r2[3, UNROLL] * 2 + r3[2, GROUP_REDUCE]))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r0 * 2 + r1), REDUCE(%x, r2, r3; {op: ADD})), r0, r1)))",
              out, in);
  EXPECT_THAT(out, ElementsAre(15, 51, 87, 123));
}

TEST(Lower, ReducesOverNothingAndOfOneStep) {
  std::vector<float> out(1), in = {-0.0F};
  const LinearProgram p = run_in_line(
      "SINK(STORE(INDEX(PARAM(; 0):float32*[1], 0), REDUCE(INDEX(PARAM(; 1):float32*[1], r0[1, "
      "REDUCE]):float32, r0; "
      "{op: ADD})))",
      out, in);
  EXPECT_EQ(count(p, Op::RANGE), 0);
  EXPECT_FALSE(std::signbit(out[0]));  // 0.0 + -0.0
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

TEST(Lower, WhatDoesNotChangeStandsOutsideOfTheLoop) {
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
