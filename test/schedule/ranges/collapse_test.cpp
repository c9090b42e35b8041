// The rules of reduce_collapse are functions from graph to graph. So z3 is asked of instances: reduces over a
// few steps, written out step by step on one side, and what the rules make of them on the other. What is free
// in them stays free: variables have wide bounds, and memory holds anything.
#include "quern/schedule/ranges/collapse.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/text/parse.h"
#include "test/fuzz.h"
#include "test/ir/graph_solver.h"
#include "test/ir/unproved.h"

namespace quern {
namespace {

constexpr int kMostSteps = 4;

// Which rule they are instances of.
struct Instances {
  std::string rule;
  std::vector<std::string> texts;
};

void PrintTo(const Instances& instances, std::ostream* out) { *out << instances.rule; }

Instances equal_values() {
  Instances all{"equal_values", {}};
  for (int n = 1; n <= kMostSteps; n++) {
    for (const char* op : {"ADD", "MUL", "MAX", "MIN"})
      for (const char* x : {"$x[-1000..1000]", "$x[-128..127]:int8", "$x[0..255]:uint8"})
        all.texts.push_back(fmt::format("REDUCE({}, r0[{}]; {{op: {}}})", x, n, op));
    for (const char* op : {"AND", "OR", "XOR", "MAX"})
      all.texts.push_back(fmt::format("REDUCE($x[-9..9] < $y[-9..9], r0[{}]; {{op: {}}})", n, op));
    for (const char* op : {"AND", "OR", "XOR"})
      all.texts.push_back(fmt::format("REDUCE($x[0..255]:uint8, r0[{}]; {{op: {}}})", n, op));
    for (const char* op : {"ADD", "MAX"})
      all.texts.push_back(
          fmt::format("REDUCE(INDEX(PARAM(; 0):float32*[1000], r0[3] * $x[0..9]):float32, "
                      "r0, r1[{}]; {{op: {}}})",
                      n, op));
  }
  return all;
}

Instances one_element() {
  Instances all{"one_element", {}};
  const std::string e = "$e[-1000..1000]", f = "$f[-1000..1000]";
  for (int n = 1; n <= kMostSteps; n++) {
    const std::string r = fmt::format("r0[{}]", n);
    for (const int factor : {1, -1, 2, -3})
      for (const char* value :
           {"INDEX(PARAM(; 0):float32*[1000], r0 + 7):float32", "CAST(r0 * 3 + $g[0..9]):int8"})
        for (const char* more : {"", " & ($h[-9..9] < r0)"}) {
          const bool is_float = std::string_view(value).starts_with("INDEX");
          all.texts.push_back(fmt::format("REDUCE(where(({} * {} + {} == {}){}, {}, {}), r0; {{op: ADD}})", r,
                                          factor, e, f, more, value, is_float ? "0.0" : "0"));
        }
    all.texts.push_back(
        fmt::format("REDUCE(where({} != {}, 0:int8, $v[-128..127]:int8), r0; {{op: ADD}})", r, e));
    all.texts.push_back(
        fmt::format("REDUCE(CAST({} == {}):int8 * CAST(r0 + $g[0..9]):int8, r0; {{op: ADD}})", r, e));
    all.texts.push_back(
        fmt::format("REDUCE(where({} + r1[2] == {}, CAST(r0 * 2 + r1):int8, 0), r0, r1; {{op: ADD}})", r, e));
    for (const char* x : {"$i[-128..127]:int8", "$i[0..255]:uint8"})
      all.texts.push_back(
          fmt::format("REDUCE(where(CAST({}):{} == {}, $v[-128..127]:int8, 0), r0; {{op: ADD}})", r,
                      std::string_view(x).substr(std::string_view(x).find(':') + 1), x));
  }
  return all;
}

Instances equal_values_or_0() {
  Instances all{"equal_values_or_0", {}};
  const std::string e = "$e[-1000..1000]", f = "$f[-1000..1000]";
  for (int n = 1; n <= kMostSteps; n++)
    for (const char* v : {"$v[-1000..1000]", "$v[-128..127]:int8"}) {
      const std::string r = fmt::format("r0[{}]", n);
      for (const std::string& condition :
           {fmt::format("{} < {}", r, e), fmt::format("{} < {}", e, r), fmt::format("{} < {} - {}", e, f, r),
            fmt::format("!({} < {})", r, e)}) {
        all.texts.push_back(fmt::format("REDUCE(where({}, {}, 0), r0; {{op: ADD}})", condition, v));
        all.texts.push_back(fmt::format("REDUCE(where({}, 0, {}), r0; {{op: ADD}})", condition, v));
      }
      for (const std::string& condition : {fmt::format("({} < {}) & ({} < r0 + {})", r, e, f, e),
                                           fmt::format("({} + {} < {}) & ($g[0..3] < 2)", r, e, f),
                                           fmt::format("!({} < {}) & (r0 < {})", e, r, f)})
        all.texts.push_back(fmt::format("REDUCE(where({}, {}, 0), r0; {{op: ADD}})", condition, v));
    }
  return all;
}

Instances conditions_that_do_not_change() {
  Instances all{"conditions_that_do_not_change", {}};
  for (int n = 1; n <= kMostSteps; n++)
    for (const char* c : {"$a[-9..9] < $b[-9..9]", "($a[-9..9] < 3) & (r0 * $b[-9..9] < 4)",
                          "($a[-9..9] == 3) & ($b[-9..9] != 4)"}) {
      all.texts.push_back(fmt::format(
          "r0[{}]; REDUCE(where({}, INDEX(PARAM(; 0):float32*[1000], r0):float32, 0.0), r0; {{op: ADD}})", n,
          c));
      all.texts.push_back(
          fmt::format("r0[{}]; REDUCE(where({}, CAST(r0 * $g[0..9] + 1):int8, 0), r0; {{op: ADD}})", n, c));
    }
  return all;
}

class ReduceCollapse : public testing::TestWithParam<Instances> {};

TEST_P(ReduceCollapse, IsProved) {
  if (!can_compare()) GTEST_SKIP() << "built without z3";
  if (kSanitized) GTEST_SKIP() << "proofs are the same without sanitizers, and quicker";
  int proved = 0;
  std::vector<std::string> unproved;
  for (const std::string& text : GetParam().texts) {
    SCOPED_TRACE(text);
    const UOp before = parse(text), after = reduce_collapse.apply(before).result;
    if (!after) {
      ADD_FAILURE() << "no rule applies";
      continue;
    }
    std::string model;
    const Answer answer = compare_by_solver(written_out(before), written_out(after), &model);
    if (answer == Answer::equal) proved++;
    if (answer == Answer::unknown) unproved.push_back(text);
    EXPECT_NE(answer, Answer::different) << "becomes\n" << after.text() << "\nwhich differs at\n" << model;
  }
  std::cout << GetParam().rule << ": " << proved << " proved by z3, " << unproved.size() << " not proved\n";
  expect_unproved("reduce_collapse, " + GetParam().rule, unproved);
}

INSTANTIATE_TEST_SUITE_P(Rules, ReduceCollapse,
                         testing::Values(equal_values(), one_element(), equal_values_or_0(),
                                         conditions_that_do_not_change()),
                         [](const auto& instances) { return instances.param.rule; });

TEST(GraphSolver, FindsWhatDiffers) {
  if (!can_compare()) GTEST_SKIP() << "built without z3";
  const auto answer = [](const std::string& a, const std::string& b) {
    return compare_by_solver(written_out(parse(a)), written_out(parse(b)));
  };
  EXPECT_EQ(answer("REDUCE($x[0..9], r0[3]; {op: ADD})", "$x[0..9] * 3"), Answer::equal);
  EXPECT_EQ(answer("REDUCE($x[0..9], r0[3]; {op: ADD})", "$x[0..9] * 2"), Answer::different);
  EXPECT_EQ(answer("REDUCE($x[0..0], r0[3]; {op: ADD})", "$x[0..0] * 2"), Answer::equal);
  EXPECT_EQ(answer("REDUCE($x[0..99]:int8, r0[2]; {op: ADD})", "CAST(CAST($x[0..99]:int8):int32 * 2):int8"),
            Answer::equal);
  EXPECT_EQ(answer("CAST(REDUCE($x[0..99]:int8, r0[2]; {op: ADD})):int32", "CAST($x[0..99]:int8):int32 * 2"),
            Answer::different)
      << "it wraps around";
  const std::string sum =
      "REDUCE(where(r0[4] == $e[-9..9], INDEX(PARAM(; 0):float32*[9], r0):float32, 0.0), r0; {op: ADD})";
  const std::string element = "INDEX(PARAM(; 0):float32*[9], $e[-9..9]):float32";
  EXPECT_EQ(answer(sum, "where((0 <= $e[-9..9]) & ($e < 4), " + element + ", 0.0)"), Answer::equal);
  EXPECT_EQ(answer(sum, "where(0 <= $e[-9..9], " + element + ", 0.0)"), Answer::different);
}

}  // namespace
}  // namespace quern
