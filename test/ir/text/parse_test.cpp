#include "quern/ir/text/parse.h"

#include <gtest/gtest.h>

#include <iostream>

#include "quern/ir/text/print.h"
#include "test/ir/random_graph.h"
#include "test/ir/rounds.h"

namespace quern {
namespace {

using namespace literals;

TEST(Parse, OperatorsMeanWhatTheyMeanInCpp) {
  const UOp n = UOp::variable("n", 0, 9);
  const NamedNodes names = {{"n", n}, {"m", n * 3}};
  const UOp m = n * 3;
  const std::pair<const char*, UOp> cases[] = {
      {"%n - %m", n - m},      {"-%n", -n},          {"3 - %n", 3 - n},        {"%n - 3", n - 3},
      {"%n > %m", n > m},      {"%n >= %m", n >= m}, {"%n > 3", n > 3},        {"3 >= %n", 3 >= n},
      {"!(%n < 3)", ~(n < 3)}, {"~%n", ~n},          {"%n // %m", n / m},      {"%n%%m", n % m},
      {"%n %3", n % 3},        {"- -%n", -(-n)},     {"%n--3", n - -3},        {"%n * -3", n * -3},
      {"-3 * %n", -3 * n},     {"(3) * %n", 3 * n},  {"%n<<1>>2", n << 1 >> 2}};
  for (const auto& [text, meaning] : cases) EXPECT_TRUE(same(parse(text, names), meaning)) << text;
  const UOp u = UOp::variable("u", 0, 9, dtypes::uint8);
  EXPECT_TRUE(same(parse("-%u", {{"u", u}}), -u));
  EXPECT_TRUE(same(parse("!%u", {{"u", u}}), ~u));
  const UOp f = n.cast(dtypes::float16);
  EXPECT_TRUE(same(parse("-%f / 3 - %f", {{"f", f}}), -f / 3 - f));
}

TEST(Parse, PrecedenceIsThatOfPython) {
  const std::pair<const char*, const char*> cases[] = {
      {"1 + 2 * 3", "1 + (2 * 3)"},
      {"1 + 2 << 3", "(1 + 2) << 3"},
      {"1 << 2 & 3", "(1 << 2) & 3"},
      {"1 & 2 ^ 3 | 4", "((1 & 2) ^ 3) | 4"},
      {"1 | 2 == 3 + 4", "(1 | 2) == (3 + 4)"},
      {"8 // 3 % 2 * 5", "((8 // 3) % 2) * 5"},
      {"1 - 2 - 3", "(1 - 2) - 3"},
      {"!true == false", "(!true) == false"},
  };
  for (const auto& [text, meaning] : cases) EXPECT_EQ(print(parse(text)), print(parse(meaning))) << text;
}

TEST(Parse, NumbersTakeTheDTypeOfTheOtherOperand) {
  EXPECT_EQ(print("max(CAST($n[0..3]):float16, 1)"_ir), "max(CAST($n[0..3]):float16, 1.0)");
  EXPECT_EQ(print("where(true, 1, 2:int8)"_ir), "where(true, 1:int8, 2:int8)");
  EXPECT_EQ(print("MULACC(1, 2.0:float64, 3)"_ir), "MULACC(1.0:float64, 2.0:float64, 3.0:float64)");
  EXPECT_EQ(print("1 + 2"_ir), "1 + 2");
}

TEST(Parse, StatementsEndAtLinesOrSemicolons) {
  const UOp n = UOp::variable("n", 0, 9);
  const UOp meaning = (n + 1) * (n + 1);
  for (const char* text : {
           "%0 = $n[0..9] + 1\n%0 * %0",
           "%0 = $n[0..9] + 1; %0 * %0",
           "\n\n# a comment\n  %x = $n[0..9]  # and one behind\r\n\n+ 1",
           "$n[0..9]\n%one = 1\n%0 = $n + %one ; ; %0 * %0 ;\n",
           "%0 = (\n  $n[0..9]  # inside brackets a line may end\n  + 1)\n%0 * (\n%0)",
           "%0 = $n[0..9] + 1\n%1 = %0 * %0",
       }) {
    if (std::string_view(text).find("\n\n+ 1") != std::string_view::npos)
      EXPECT_THROW(parse(text), ParseError);
    else
      EXPECT_TRUE(same(parse(text), meaning)) << text;
  }
}

TEST(Parse, NodesMayBeGivenByName) {
  const UOp n = UOp::variable("n", 0, 9);
  const UOp x = n * 2;
  EXPECT_TRUE(same(parse("%x + 1", {{"x", x}}), x + 1));
  EXPECT_TRUE(same(parse("%7 = %x + 1\n%7 * %y", {{"x", x}, {"y", n}}), (x + 1) * n));
  EXPECT_THROW(parse("%x = 3\n%x", {{"x", x}}), ParseError);
  EXPECT_THROW(parse("%x", {{"x", UOp()}}), ParseError);
}

// ---- errors
// -----------------------------------------------------------------------------------------------------

struct Wrong {
  const char* text;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const Wrong& wrong) { return out << wrong.text; }

class ParseErrors : public ::testing::TestWithParam<Wrong> {};

TEST_P(ParseErrors, SayWhereAndWhy) {
  try {
    const UOp u = parse(GetParam().text);
    FAIL() << "read as " << u;
  } catch (const ParseError& error) {
    EXPECT_STREQ(error.what(), GetParam().message);
    EXPECT_TRUE(std::string_view(error.what())
                    .starts_with(std::to_string(error.line) + ":" + std::to_string(error.column) + ": "));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Grammar, ParseErrors,
    ::testing::Values(
        Wrong{"", "1:1: there is no expression in this text"},
        Wrong{"# nothing\n", "2:1: there is no expression in this text"},
        Wrong{"1 + ", "1:5: expected an expression, found the end of the text"},
        Wrong{"1 +\n2", "1:4: expected an expression, found the end of the line"},
        Wrong{"1 2", "1:3: expected the end of the statement, found '2'"},
        Wrong{"(1 + 2", "1:7: expected ')' after an expression in parentheses, found the end of the text"},
        Wrong{"1 + ?", "1:5: there is no use for '?' here"},
        Wrong{"1 + \x01", "1:5: there is no use for '\\x01' here"},
        Wrong{"1 < 2 < 3", "1:7: comparisons do not chain: use parentheses"},
        Wrong{"1 + 2\n3", "1:1: nothing uses this value: name it ('%x = ...') or make it the last statement"},
        Wrong{"\n\n  NOOP(1 2)", "3:10: expected ',' or ')' after the sources of NOOP, found '2'"},
        Wrong{"NOOP(1,,2)", "1:8: expected an expression, found ','"},
        Wrong{"NOOP 1", "1:6: expected '(' after NOOP, found '1'"},
        Wrong{"UNIQUE(3", "1:9: expected ')' after the argument of UNIQUE, found the end of the text"}));

INSTANTIATE_TEST_SUITE_P(
    Names, ParseErrors,
    ::testing::Values(
        Wrong{"LAOD(1)", "1:1: unknown op LAOD (did you mean LOAD?)"},
        Wrong{"%0 = 1\n   sqrt(1.0:float32)", "2:4: unknown op sqrt (did you mean SQRT?)"},
        Wrong{"wehre(1)", "1:1: unknown op wehre (did you mean where?)"},
        Wrong{"something(1)", "1:1: unknown op something"},
        Wrong{"anextraordinarilylongnameforanything", "1:1: unknown op anextraordinarilylongnam..."},
        Wrong{"%7", "1:1: %7 is not defined"}, Wrong{"%x = %x + 1", "1:6: %x is not defined"},
        Wrong{"%1 = 1\n%1 = 2", "2:1: %1 is defined twice"},
        Wrong{"% 1", "1:3: expected the name of a node directly after '%', found '1'"},
        Wrong{"%1.5", "1:2: expected the name of a node directly after '%', found '1.5'"},
        Wrong{"1 + $n", "1:5: $n is not defined: where it is first used say $n[0..15]"},
        Wrong{"$n[0..1] + $n[0..2] + $n", "1:23: $n may be one of several here: say $n[0..15] each time"},
        Wrong{"$3", "1:2: expected the name of a variable after '$', found '3'"},
        Wrong{"r0 + 1", "1:1: r0 is not defined: where it is first used say r0[16]"},
        Wrong{"r0[1] + r0[2] + r0", "1:17: r0 may be one of several here: say r0[16] each time"},
        Wrong{"r99999999999999999999[1]",
              "1:1: the number of the range r99999999999999999999 does not fit in 64 bits"},
        Wrong{"r0[16, SIDEWAYS]",
              "1:8: expected the kind of the range (LOOP, GLOBAL, REDUCE, ...), found 'SIDEWAYS'"},
        Wrong{"r0[16", "1:6: expected ']' after the size of a range, found the end of the text"}));

INSTANTIATE_TEST_SUITE_P(
    Values, ParseErrors,
    ::testing::Values(
        Wrong{"1 + 300:int8", "1:5: 300 is not one of the values of int8 (-128 to 127)"},
        Wrong{"$n[0..3]:int8 + 128", "1:17: 128 is not one of the values of int8 (-128 to 127)"},
        Wrong{"99999999999999999999",
              "1:1: '99999999999999999999' is not one of the values of index (-9223372036854775808 to "
              "9223372036854775807)"},
        Wrong{"70000.0:float16", "1:1: 70000.0 is too large for float16"},
        Wrong{"1.5", "1:1: 1.5 needs a dtype, as in 1.5:float32"},
        Wrong{"-inf", "1:1: -inf needs a dtype, as in -inf:float32"},
        Wrong{"1.5:int8", "1:1: '1.5' is not one of the values of int8 (-128 to 127)"},
        Wrong{"true:int8", "1:1: 'true' is not one of the values of int8 (-128 to 127)"},
        Wrong{"1:void", "1:1: void has no constants"}, Wrong{"CONST(; 3)", "1:9: void has no constants"},
        Wrong{"$n[1..0]", "1:1: variable n: its least value 1 is above its greatest 0"},
        Wrong{"$n[1.5..2]", "1:4: '1.5' is not an integer"},
        Wrong{"$n[0..99999999999999999999]", "1:7: '99999999999999999999' does not fit in 64 bits"},
        Wrong{"$n[0..300]:uint8", "1:1: 300 is not one of the values of uint8 (0 to 255)"},
        Wrong{"$n[0 3]", "1:6: expected '..' between the bounds of a variable, found '3'"},
        Wrong{"$n[0..1]:float32", "1:1: variable n: dtype float32 is not a scalar integer"},
        Wrong{"1:float33", "1:3: 'float33' is not a dtype: expected the name of a scalar type at 'float33'"},
        Wrong{"1:float32x99999999", "1:3: 'float32x99999999' is not a dtype: expected 2 to 1024 lanes at ''"},
        Wrong{"NOOP():float32*@GLOBAL",
              "1:8: 'float32*@GLOBAL' is not a dtype: unexpected text at '@GLOBAL'"},
        Wrong{"1: + 2", "1:4: expected a dtype, found '+'"}));

INSTANTIATE_TEST_SUITE_P(
    Types, ParseErrors,
    ::testing::Values(
        Wrong{"$n[0..3] +\t$m[0..3]:int32", "1:10: operands have dtypes index and int32"},
        Wrong{"1 / 2", "1:3: FDIV(index, index): needs floats"},
        Wrong{"NOOP() + NOOP()", "1:8: ADD(void, void): there is no arithmetic on this type"},
        Wrong{"-true", "1:1: negation of a bool; use ~ or cast it"},
        Wrong{"!1.0:float32", "1:1: ~ of float32: needs an integer or a bool"},
        Wrong{"max(1, 2; int 3)", "1:1: max has no argument: say MAX instead"},
        Wrong{
            "where(1, 2, 3)",
            "1:1: WHERE(index, index, index): the condition must be a bool with as many lanes as the values"},
        Wrong{"$n[0..3] // 0", "1:10: division by the constant 0"},
        Wrong{"truncmod(1, 0)", "1:1: division by the constant 0"},
        Wrong{"1@a@b", "1:4: this node has a tag already"},
        Wrong{"LOAD()", "1:1: LOAD takes 1 to 3 sources, given 0"},
        Wrong{"max(1)", "1:1: max takes 2 sources, given 1"},
        Wrong{"AFTER()", "1:1: AFTER takes at least 1 sources, given 0"},
        Wrong{"where(1)", "1:1: where takes 3 sources, given 1"}));

INSTANTIATE_TEST_SUITE_P(
    Arguments, ParseErrors,
    ::testing::Values(
        Wrong{"NOOP(; 3)", "1:8: expected the kind of the argument, as in 'int 3', found '3'"},
        Wrong{"UNIQUE(x)", "1:8: expected an integer, found 'x'"},
        Wrong{"UNIQUE(-)", "1:9: expected an integer, found ')'"},
        Wrong{"DEVICE(\"CPU\")", "1:8: expected '[' before a list, found '\\\"CPU\\\"'"},
        Wrong{"DEVICE([\"CPU\" \"GPU\"])", "1:15: expected ']' after a list, found '\\\"GPU\\\"'"},
        Wrong{"DEVICE([3])", "1:9: expected a text in quotes, found '3'"},
        Wrong{"DEVICE([\"CPU])", "1:9: this text has no closing '\"'"},
        Wrong{"DEVICE([\"a\\q\"])", "1:11: \\'q' is not an escape; there are \\n, \\\", \\\\ and \\x00"},
        Wrong{"DEVICE([\"a\\x1\"])", "1:11: \\x needs two hexadecimal digits"},
        Wrong{"REDUCE(1; {op: SUM})", "1:16: expected the name of an op, found 'SUM'"},
        Wrong{"REDUCE(1; {axis: 1})", "1:12: expected one of the fields op, axes, states, found 'axis'"},
        Wrong{"REDUCE(1; {op: ADD, op: ADD})", "1:21: op is given twice"},
        Wrong{"REDUCE(1; {op ADD})", "1:15: expected ':' after op, found 'ADD'"},
        Wrong{"REDUCE(1; {op: ADD]", "1:19: expected '}' after the fields of the argument, found ']'"},
        Wrong{"REDUCE(1; 3)", "1:11: expected '{' before the fields of the argument, found '3'"},
        Wrong{"STAGE(1; {removable: 1})", "1:22: expected true or false, found '1'"},
        Wrong{"STAGE(1; {space: NEAR})", "1:18: expected GLOBAL, LOCAL or REG, found 'NEAR'"},
        Wrong{"RANGE(1; {kind: X})", "1:17: expected the kind of an axis (LOOP, REDUCE, ...), found 'X'"},
        Wrong{"NOOP(; const 3)", "1:14: the kind of the constant must follow: bool, int, float or invalid"},
        Wrong{"NOOP(; const int true)",
              "1:18: 'true' is not one of the values of int64 (-9223372036854775808 to 9223372036854775807)"},
        Wrong{"NOOP(; const int invalid)", "1:18: expected a value after int"},
        Wrong{"NOOP()@", "1:8: expected a tag, found the end of the text"},
        Wrong{"NOOP()@(", "1:8: expected a tag, found '('"}));

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; i++) text += part;
  return text;
}

TEST(ParseLimits, NestingIsRefusedBeforeItIsTooDeep) {
  for (const char* opening : {"(", "-", "!", "NOOP(", "max(1,", "r0[", "1+(", "NOOP()@[", "NOOP(1;{"}) {
    try {
      parse(repeated(opening, 100'000));
      FAIL() << opening;
    } catch (const ParseError& error) {
      EXPECT_LT(std::string_view(error.what()).size(), 200) << opening;
    }
  }
  EXPECT_TRUE(same(parse(repeated("(", 150) + "1" + repeated(")", 150)), UOp::index(1)));
  try {
    parse(repeated("(", 1'000) + "1" + repeated(")", 1'000));
    FAIL();
  } catch (const ParseError& error) {
    EXPECT_STREQ(error.what(), "1:201: this is nested more than 200 levels deep: name the inner parts");
  }
}

TEST(ParseLimits, LongThingsAreReadInLinearTime) {
  EXPECT_NO_THROW(parse("1" + repeated(" + 1", 100'000)));
  EXPECT_NO_THROW(parse("$n[0..1]" + repeated(" - $n", 100'000)));
  EXPECT_NO_THROW(parse("PERMUTE(1; [1" + repeated(", 1", 100'000) + "])"));
  EXPECT_NO_THROW(parse("SINK(1" + repeated(", 1", 100'000) + ")"));
  EXPECT_NO_THROW(parse(repeated("\n", 100'000) + "1"));
  EXPECT_THROW(parse(repeated("9", 100'000)), ParseError);
  EXPECT_THROW(parse("1:float32" + repeated("x", 100'000)), ParseError);
  EXPECT_THROW(parse(repeated("A", 100'000) + "(1)"), ParseError);
  EXPECT_THROW(parse("\"" + repeated("a", 100'000)), ParseError);
}

// ---- everything that can be made
// -----------------------------------------------------------------------------------

TEST(ParseProperty, WhatPrintsReadsBackAsTheSameNode) {
  const int count = rounds(3'000);
  const uint64_t seed = first_seed();
  std::cout << "ParseProperty: seed " << seed << ", " << count << " graphs\n";
  OpSet seen;
  for (int i = 0; i < count; i++) {
    RandomGraph random(seed + i);
    const UOp u = random.graph(3 + i % 60);
    seen |= u.ops_below();
    const std::string text = print(u);
    try {
      const UOp read = parse(text);
      ASSERT_TRUE(same(read, u)) << "seed " << seed + i << "\n"
                                 << text << "\n--- was read as ---\n"
                                 << print(read);
    } catch (const Error& error) {
      FAIL() << "seed " << seed + i << ": " << error.what() << "\n" << text;
    }
  }
  EXPECT_EQ(seen, ops::all);
}

}  // namespace
}  // namespace quern
