#include "quern/ir/text/print.h"

#include <gtest/gtest.h>

#include <sstream>

#include "quern/ir/text/parse.h"

namespace quern {
namespace {

using namespace literals;

// Each of these is what the printer writes for what the text says.
class PrintGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(PrintGolden, ReadsAsItIsWritten) {
  const UOp u = parse(GetParam());
  EXPECT_EQ(print(u), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Numbers, PrintGolden,
                         ::testing::Values("16", "-3", "true", "false", "3:int32", "-128:int8",
                                           "18446744073709551615:uint64", "0.5:float16", "1.0:float32",
                                           "-0.0:float64", "nan:float32", "-inf:bfloat16", "5e-324:float64",
                                           "448.0:fp8e4m3", "1.0:float32x4", "true:boolx4", "invalid:index",
                                           "invalid:int32", "7@mark", "7:int8@mark",
                                           "CONST(DEVICE([\"CPU\"]); 3):int32",
                                           "CONST(; const int 3):float32", "CONST(; const float inf):fp8e4m3",
                                           "CONST(; const float 0.5):float32*", "CONST(; text \"x\"):index"));

INSTANTIATE_TEST_SUITE_P(
    Arithmetic, PrintGolden,
    ::testing::Values("$n[1..4096] * 2 + 1", "($n[1..4096] + 1) * 2", "$n[0..9] + ($n + 1)",
                      "$n[0..9] // 2 % 3", "$n[0..9] // (2 % 3)", "$x[0..9]:int32 * -1", "1 + 2",
                      "1:int8 + 2:int8", "1 << $n[0..3]", "where((r0[16] < 3) & (1 <= r0), r0 + -3, invalid)",
                      "!($n[0..9] < 3)", "!!($n[0..9] == 3)", "!true", "true ^ ($n[0..9] < 3)",
                      "($n[0..9] != 2) == (3 < $n)",
                      "max($n[0..9], 3) + min($n, 4) * truncdiv($n, 5) + truncmod($n, 6)",
                      "($n[0..9] & 7 | 8 ^ $n) >> 1", "($n[0..9] + 1)@mark * 2", "max($n[0..9], 3)@2",
                      "1.0:float32 / 3.0:float32", "CAST(r0[8]):float32 / 3.0",
                      "SQRT(CAST(r0[8]):float16 * 0.5)"));

INSTANTIATE_TEST_SUITE_P(WhatTheCheckedFormsRefuse, PrintGolden,
                         ::testing::Values("FLOORDIV($n[0..9], 0)", "TRUNCMOD($n[0..9], 0)",
                                           "ADD(3:index, 4:int8)", "ADD(3, 4):float16",
                                           "ADD($n[0..9], 4; int 2)", "SUB($n[0..9], 1)", "NEG($n[0..9])",
                                           "FDIV($n[0..9], 3)", "AND(1.0:float32, 2.0:float32)",
                                           "WHERE(1, 2, 3)", "CMPLT(1, 2):index",
                                           "MULACC(1:int8, $n[0..9], 3:index)", "RANGE(16; {id: -1})",
                                           "RANGE(16; {kind: REDUCE}):int32", "RANGE(16; int 3)",
                                           "DEFINE_VAR({name: \"n\", min: 3, max: 1})",
                                           "DEFINE_VAR({name: \"n\", max: 256}):uint8", "DEFINE_VAR()"));

INSTANTIATE_TEST_SUITE_P(NamesOfVariablesAndRanges, PrintGolden,
                         ::testing::Values("$n[1..4096]", "$n[0..255]:uint8 + $n",
                                           "$\"odd name\"[-3..3] + $\"odd name\"", "$n[0..3] + $n[0..4]",
                                           "$n[0..3]@mark + $n@mark + $n", "r0[16] + r0",
                                           "r1[$n[0..7] + 1, REDUCE] + r1 + $n", "r0[16:int32]",
                                           "r0[16]@mark + r0[16]", "r0[16] + r0[17]",
                                           "r0[16] + r0[16, UPCAST]", "r0[r1[r2[3]]] + r1 + r2"));

INSTANTIATE_TEST_SUITE_P(
    Calls, PrintGolden,
    ::testing::Values("SINK()", "SINK(; {})",
                      "SINK(; {name: \"sum\", opts: [\"UPCAST:0:4\", \"UNROLL:0:2\"]})", "DEVICE([\"CPU\"])",
                      "UNIQUE(3)", "STATE(0):float32", "PARAM(; 0):float32*[16]", "PARAM(16; 0):float32",
                      "DEFINE_LOCAL(0):float32*[1024]@LOCAL", "DEFINE_LOCAL(0):float32*[1024]@LOCAL@mark",
                      "DEFINE_REG(0):float32*[4]@\"REG\"", "BUFFER(UNIQUE(0), DEVICE([\"CPU\"]); 16):float32",
                      "PERMUTE(BUFFER(UNIQUE(0), DEVICE([\"CPU\"]); 16):float32; [1, 0])",
                      "REDUCE(PARAM(4, 8; 0):float32; {op: ADD, axes: [1]})",
                      "REDUCE(CAST(r0[8, REDUCE]):float32, r0; {op: MAX})",
                      "GEP(PARAM(; 0):float32x4; [0, 2])", "VECTORIZE(1.0:float16, 2.0:float16)",
                      "LOAD(INDEX(PARAM(; 0):int8*, r0[4]), 0:int8)",
                      "STAGE(r0[4], r0; {space: LOCAL, removable: false, reason: \"reused\"})",
                      "FUNCTION(TUPLE(1, 2); {name: \"f\", precompile: true})",
                      "GROUP(; texts [\"a\\nb\", \"\\x00\\\"\"])", "SPECIAL(16; \"gidx0\")", "NOOP()",
                      "NOOP():float32"));

INSTANTIATE_TEST_SUITE_P(
    Tags, PrintGolden,
    ::testing::Values("NOOP()@word", "NOOP()@\"two words\"", "NOOP()@\"reduce\"", "NOOP()@-3",
                      "NOOP()@[1, 2]", "NOOP()@[]", "NOOP()@texts [\"a\"]", "NOOP()@const float 0.5",
                      "NOOP()@const bool true", "NOOP()@const invalid", "NOOP()@const int -3",
                      "NOOP()@reduce {op: MUL}", "NOOP()@range {id: 3, kind: WARP}",
                      "NOOP()@variable {name: \"n\", max: 3}", "NOOP()@stage {device: [\"CPU\"]}",
                      "NOOP()@kernel {}", "NOOP()@function {}", "NOOP()@\"hints\"", "NOOP()@{}",
                      "NOOP()@{stream: true, prefetch: -64}", "NOOP()@{reason: \"two words\", put: [1, 2]}"));

TEST(Print, AKernel) {
  const char* text =
      "%0 = LOAD(INDEX(PARAM(; 0):float32*[256], r0[16, GLOBAL] * 16 + r1[16, REDUCE]))\n"
      "%1 = STORE(INDEX(PARAM(; 1):float32*[16], r0), REDUCE(%0 * %0, r1; {op: ADD}))\n"
      "SINK(END(%1, r0); {name: \"sum_of_squares\"})";
  EXPECT_EQ(print(parse(text)), text);
}

TEST(Print, SharedNodesHaveANumberAndALine) {
  const UOp x = UOp::variable("x", 0, 9);
  const UOp y = x * 2 + 1;
  EXPECT_EQ(print(y * y + (y + 1) * (y + 1)),
            "%0 = $x[0..9] * 2 + 1\n"
            "%1 = %0 + 1\n"
            "%0 * %0 + %1 * %1");
}

TEST(Print, DeepExpressionsContinueOnAnotherLine) {
  UOp x = UOp::variable("x", 0, 9);
  for (int i = 0; i < 30; i++) x = x + i;
  EXPECT_EQ(print(x),
            "%0 = $x[0..9] + 0 + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11\n"
            "%1 = %0 + 12 + 13 + 14 + 15 + 16 + 17 + 18 + 19 + 20 + 21 + 22 + 23\n"
            "%1 + 24 + 25 + 26 + 27 + 28 + 29");
}

TEST(Print, ARangeWithADeepEndIsDeclared) {
  UOp end = UOp::variable("x", 1, 9);
  for (int i = 0; i < 12; i++) end = end + i;
  const UOp r = UOp::range(end, 0);
  const UOp u = r + r * 2;
  EXPECT_EQ(print(u),
            "%0 = $x[1..9] + 0 + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11\n"
            "r0[%0] + r0 * 2");
  UOp nested = UOp::index(3);
  for (int i = 0; i < 14; i++)
    nested = UOp::make(Op::RANGE, dtypes::index, {nested}, RangeArg{i, AxisKind::LOOP});
  EXPECT_EQ(print(nested),
            "r11[r10[r9[r8[r7[r6[r5[r4[r3[r2[r1[r0[3]]]]]]]]]]]]\n"
            "r13[r12[r11]]");
}

TEST(Print, ANodeWithNoneIsSaidSo) { EXPECT_EQ(print(UOp()), "none"); }

TEST(Print, TextAndStreamAreThePrint) {
  const UOp u = "r0[16] * 2"_ir;
  std::ostringstream out;
  out << u;
  EXPECT_EQ(out.str(), "r0[16] * 2");
  EXPECT_EQ(u.text(), "r0[16] * 2");
}

TEST(Print, AMillionNodesInAChain) {
  UOp x = UOp::variable("x", 0, 9);
  for (int i = 0; i < 1'000'000; i++) x = i % 3 == 0 ? max(x, i) : x + i;
  const std::string text = print(x);
  EXPECT_TRUE(same(parse(text), x));
}

TEST(Print, AMillionRangesInAChain) {
  UOp x = UOp::index(3);
  for (int i = 0; i < 1'000'000; i++)
    x = UOp::make(Op::RANGE, dtypes::index, {x}, RangeArg{i % 1'000, AxisKind::LOOP});
  EXPECT_TRUE(same(parse(print(x)), x));
}

TEST(Print, ManySourcesAndMuchSharing) {
  UOp x = UOp::variable("x", 0, 9);
  UOps all;
  for (int i = 0; i < 20'000; i++) {
    x = x * x;  // as a tree this would have 2^20000 leaves
    all.push_back(x + i);
    all.push_back(UOp::index(i));
  }
  const UOp sink = UOp::sink(all);
  EXPECT_TRUE(same(parse(print(sink)), sink));
}

}  // namespace
}  // namespace quern
