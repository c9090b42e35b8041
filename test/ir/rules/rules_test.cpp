// Rules: right sides, conditions, functions, and lists of them.
#include "quern/ir/rules/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/ir/rewrite/rewrite.h"
#include "test/error_of.h"
#include "test/ir/variables.h"

namespace quern {
namespace {

using testing::HasSubstr;

UOp apply(const Rule& rule, const UOp& node) { return Rules(RuleList{rule}).apply(node).result; }
std::string compile_error(const Rule& rule) {
  return error_of<RewriteError>([&] { (void)Rules(RuleList{rule}); });
}

TEST(Rules, TheFirstThatAppliesWins) {
  const Pat x = var("x");
  const Rules rules{{x * 1, x}, {x * 2, x + x}, {op(Op::MUL), [] { return UOp::index(0); }}};
  EXPECT_TRUE(rules.apply(kN * 1).result == kN);
  EXPECT_TRUE(rules.apply(kN * 2).result == kN + kN);
  EXPECT_TRUE(rules.apply(kN * 3).result == UOp::index(0));
  EXPECT_EQ(rules.apply(kN * 2).rule, &rules.list()[1]);
  EXPECT_FALSE(rules.apply(kN + 1).result);
  EXPECT_EQ(rules.apply(kN + 1).rule, nullptr);
}

TEST(Rules, AResultThatIsTheNodeItselfIsNone) {
  const Pat x = var("x"), y = var("y");
  EXPECT_FALSE(apply({op(Op::ADD).as("u"), [](const UOp& u) { return u; }}, kN + kM));
  const Rules swap{{x + y, y + x}};  // gives the node itself in one order, so the other order is taken
  EXPECT_TRUE(swap.apply(kN + kM).result == kM + kN);
}

TEST(Rules, CapturesComeInTheOrderOfTheirNames) {
  const Pat a = var("z"), b = var("y"), c = var("x");
  UOps seen;
  const Rules rules{{op(Op::WHERE, {a, b, c}).as("w"),
                     [](UOps& out, const UOp& w, const UOp& z, const UOp& y, const UOp& x) {
                       out = {w, z, y, x};
                       return UOp();
                     }}};
  const UOp node = where(kN < kM, kN, kM);
  EXPECT_FALSE(rules.apply(node, {&seen, &typeid(UOps)}).result);
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_TRUE(seen[0] == node && seen[1] == (kN < kM) && seen[2] == kN && seen[3] == kM);
}

UOp only_constants(const UOp& x, const UOp& y) { return y.is_const() ? x : UOp(); }

TEST(Rules, WhenAConditionOrFunctionRefusesTheNextOrderIsTried) {
  const Pat i = ints("i"), j = ints("j");
  const UOp node = UOp::make(Op::ADD, dtypes::index, {UOp::index(3), kN});
  EXPECT_TRUE(apply({i + j, only_constants}, node) == kN) << "j is n first, and that is refused";
  EXPECT_TRUE(apply({i + j, i, vmax(j) == 3}, node) == kN);
  EXPECT_TRUE(apply({i + j, j, vmax(j) == 3}, node) == UOp::index(3));
  EXPECT_FALSE(apply({i + j, i, vmax(j) == 4}, node));
  // Nested orders: 2 * 2 * 2 of them, of which one satisfies the condition.
  const Pat k = ints("k"), l = ints("l");
  const UOp p = UOp::variable("p", 1, 1), q = UOp::variable("q", 2, 2), r = UOp::variable("r", 3, 3);
  for (int last : {1, 2, 3, 10}) {
    const Rule rule{(i * j) + (k * l), l, vmax(l) == last && vmax(i) != vmax(k)};
    const UOp result = apply(rule, (q * p) + (r * kN));
    const UOp wanted = last == 1 ? p : last == 2 ? q : last == 3 ? r : kN;
    EXPECT_TRUE(result == wanted) << last;
  }
}

TEST(Rules, AnExactConstantThatDoesNotFitRefuses) {
  const Pat i = ints("i"), c0 = int_const("c0"), c1 = int_const("c1");
  const Rule exactly{(i * c0) * c1, i * exact(c0 * c1)}, folded{(i * c0) * c1, i * fold(c0 * c1)};
  const UOp x = UOp::make(Op::PARAM, dtypes::int8, {}, 0);
  EXPECT_TRUE(apply(exactly, (x * 10) * 12) == x * 120);
  EXPECT_FALSE(apply(exactly, (x * 10) * 13));
  EXPECT_TRUE(apply(folded, (x * 10) * 13) == x * -126) << "130 wraps";
  EXPECT_FALSE(apply(folded, (kN * int64_t{1} * (int64_t{1} << 40)) * (int64_t{1} << 40)))
      << "sizes do not wrap";
}

TEST(Rules, FoldInTheArithmeticOfTheDtype) {
  const Pat x = floats("x"), c0 = float_const("c0"), c1 = float_const("c1"), i = ints("i"),
            k = int_const("k");
  const UOp f = UOp::make(Op::PARAM, dtypes::float32, {}, 0);
  const Rule sum{(x + c0) + c1, x + fold(c0 + c1)};
  EXPECT_TRUE(apply(sum, (f + 1.0) + 0x1p-24) == f + 1.0) << "rounded to float32";
  EXPECT_TRUE(apply({x * c0, x * fold(c0 * -1)}, f * 2.0) == f * -2.0)
      << "a literal takes the type of its sibling";
  EXPECT_TRUE(apply({i << k, i * fold(Pat(1) << k)}, kN << 3) == kN * 8);
  EXPECT_FALSE(apply({i << k, i * fold(Pat(1) << k)}, kN << 63)) << "2^63 is no index";
  EXPECT_TRUE(apply({i % k, fold(op(Op::NEG, {k}))}, UOp::make(Op::PARAM, dtypes::int32, {}, 0) % 5) ==
              UOp::constant(dtypes::int32, -5));
}

TEST(Rules, RightSides) {
  const Pat x = var("x"), y = var("y"), i = ints("i");
  const UOp u8 = UOp::make(Op::PARAM, dtypes::uint8, {}, 0),
            v = UOp::make(Op::PARAM, dtypes::int32.vec(4), {}, 1);
  EXPECT_TRUE(apply({x - y, y - x}, kN - kM) == kM - kN);
  EXPECT_TRUE(apply({i % 4, i & 3}, u8 % 4) == (u8 & 3));
  EXPECT_TRUE(apply({i / 1, 0}, u8 / 1) == UOp::constant(dtypes::uint8, 0))
      << "a literal has the node's dtype";
  EXPECT_TRUE(apply({i < 1, i <= 0}, u8 < 1) == (u8 <= 0)) << "a comparison's literals have the operands'";
  EXPECT_TRUE(apply({i < 1, ~(Pat(0) < i)}, u8 < 1) == ~(0 < u8));
  EXPECT_TRUE(apply({max(x, y), where(x < y, y, x)}, max(kN, kM)) == where(kN < kM, kM, kN));
  EXPECT_TRUE(apply({max(x, y), where(x < y, y, x)}, max(v, v * 2)) == where(v < v * 2, v * 2, v));
  EXPECT_TRUE(apply({i < i, false}, v < v) == UOp::constant(dtypes::bool_.vec(4), false));
}

TEST(Rules, Conditions) {
  const Pat i = ints("i"), j = ints("j"), c = int_const("c");
  auto holds = [&](const Pat& condition, const UOp& node) {
    return static_cast<bool>(apply({i % c, 0, condition}, node));
  };
  const UOp node = kN % 7;
  EXPECT_TRUE(holds(c > 6 && c < 8, node));
  EXPECT_FALSE(holds(c > 6 && c < 7, node));
  EXPECT_TRUE(holds(c < 0 || c == 7, node));
  EXPECT_TRUE(holds(c % 2 == 1 && c / 2 == 3 && c * 2 + 1 == 15, node));
  EXPECT_TRUE(holds(max(c, 9) == 9 && min(c, 9) == 7 && (c ^ 1) == 6, node));
  EXPECT_TRUE(holds(vmin(i) == 0 && vmax(i) == 10, node));
  EXPECT_TRUE(holds(vmin(i) >= 0 && vmax(i) <= 10 && vmax(i) != 9, node));
  EXPECT_FALSE(holds(vmax(i) < c, node));
  EXPECT_TRUE(holds(~(vmax(i) < c), node));
  EXPECT_FALSE(holds(i == 3, node)) << "what is not known does not hold";
  EXPECT_FALSE(holds(i != 3, node));
  EXPECT_FALSE(holds(c % 0 == 0, node));
  EXPECT_TRUE(holds(c > 0 || c % 0 == 0, node));
  EXPECT_TRUE(apply({i % j, i, vmax(i) < vmin(j) && vmin(i) >= 0}, kN % UOp::variable("k", 11, 20)) == kN);
}

TEST(Rules, NoWrap) {
  const Pat i = ints("i"), j = ints("j"), c = int_const("c");
  const UOp x = UOp::variable("x", 0, 100, dtypes::int8), y = UOp::variable("y", 0, 27, dtypes::int8);
  const UOp z = UOp::variable("z", 0, 28, dtypes::int8), u = UOp::variable("u", 0, 3, dtypes::uint8);
  const Rule sum{i < j, true, no_wrap(i + j)};
  EXPECT_TRUE(apply(sum, x < y)) << "at most 127";
  EXPECT_FALSE(apply(sum, x < z)) << "128 is no int8";
  EXPECT_TRUE(apply(sum, kN < kM)) << "index never wraps";
  const Rule product{i < c, true, no_wrap(i * c + 1)};
  EXPECT_TRUE(apply(product, y < 4));
  EXPECT_FALSE(apply(product, y < 5));
  EXPECT_TRUE(apply(product, u < 84));
  EXPECT_FALSE(apply(product, u < 85)) << "256 is no uint8";
  const Rule negative{i < c, true, no_wrap(i * -1)};
  EXPECT_TRUE(apply(negative, x < 3));
  EXPECT_FALSE(apply(negative, u < 3)) << "-1 is no uint8";
}

struct Counter {
  int calls = 0;
};
UOp count(Counter& counter, const UOp&) {
  counter.calls++;
  return {};
}
UOp read_counter(const Counter& counter, const UOp& x) { return x + counter.calls; }

TEST(Rules, FunctionsSeeTheContext) {
  const Rules rules{{op(Op::DEFINE_VAR).as("x"), count}, {op(Op::DEFINE_VAR).as("x"), read_counter}};
  Counter counter{4};
  EXPECT_TRUE(rules.apply(kN, {&counter, &typeid(Counter)}).result == kN + 5);
  EXPECT_EQ(counter.calls, 5);
}

TEST(Rules, AContextOfAnotherTypeIsRefused) {
  const Rules rules{{op(Op::DEFINE_VAR).as("x"), count, "count variables"}};
  int other = 0;
  const std::string wrong = error_of<RewriteError>([&] { graph_rewrite(kN, rules, other); });
  EXPECT_THAT(wrong, HasSubstr("count variables"));
  EXPECT_THAT(wrong, HasSubstr("rules_test.cpp"));
  EXPECT_THAT(wrong, HasSubstr("context of another type"));
  EXPECT_NE(error_of<RewriteError>([&] { graph_rewrite(kN, rules); }), "") << "none at all";
}

// Used by `later`, which stands before it.
extern const Rules basics;
const Rules later = [] { return basics + Rules{{var("x") * 1, var("x")}} + basics; };
int basics_made = 0;
const Rules basics = [] {
  basics_made++;
  const Pat x = var("x");
  return RuleList{{x + 0, x}, {x * 0, 0}};
};

TEST(Rules, AListIsMadeWhenItIsFirstUsed) {
  const int before = basics_made;
  ASSERT_EQ(later.list().size(), 5u);
  EXPECT_LE(basics_made, 1);
  EXPECT_GE(basics_made, before);
  EXPECT_TRUE(later.apply(kN * 1).result == kN);
  EXPECT_TRUE(later.apply(kN * 0).result == UOp::index(0));
  EXPECT_EQ(basics.list().size(), 2u);
  EXPECT_EQ(basics_made, 1);
}

TEST(Rules, ListsAddUpInTheirOrder) {
  const Pat x = var("x");
  const Rules one{{x + 1, x}}, two{{x + 1, x * 2}, {x * 3, x}};
  const Rules one_two = one + two, two_one = two + one;
  EXPECT_TRUE(one_two.apply(kN + 1).result == kN);
  EXPECT_TRUE(two_one.apply(kN + 1).result == kN * 2);
  ASSERT_EQ(two_one.list().size(), 3u);
  EXPECT_EQ(two_one.list()[2].text(), "x + 1 -> x");
  EXPECT_EQ(two_one.list()[2].location(), one.list()[0].location());
  EXPECT_EQ(two_one.list()[2].id(), one.list()[0].id()) << "a copy is the same rule";
  EXPECT_NE(two_one.list()[0].id(), two_one.list()[1].id());
}

TEST(Rules, RootsAreTheOpsOfTheLeftSides) {
  const Pat x = var("x");
  EXPECT_EQ(Rules(RuleList{{x + 1, x}, {op({Op::MUL, Op::MAX}, {x, x}), x}}).roots(),
            OpSet({Op::ADD, Op::MUL, Op::MAX}));
  EXPECT_EQ(Rules(RuleList{{Pat(3), 4}}).roots(), OpSet(Op::CONST));
  EXPECT_TRUE(Rules(RuleList{}).roots().empty());
}

TEST(Rules, TextAndLocation) {
  const Pat i = ints("i"), c = int_const("c");
  // clang-format off
  const unsigned first = __LINE__ + 2;
  const Rules rules{
      {i + 0, i},
      {(i / c) / c,
       i / exact(c * c), c > 0},
      {op(Op::FLOORMOD).as("u"), [](const UOp&) { return UOp(); }, "drop multiples"},
      {i * 1,
       [](const UOp&) {
         return UOp();
       }},
      {i * 2, i},
  };
  // clang-format on
  const std::string file = "test/ir/rules/rules_test.cpp:";
  const RuleList& list = rules.list();
  EXPECT_EQ(list[0].text(), "i + 0 -> i");
  EXPECT_EQ(list[1].text(), "(i // c) // c -> i // (c * c)  if 0 < c");
  EXPECT_EQ(list[2].text(), "drop multiples");
  EXPECT_EQ(list[3].text(), "i * 1 -> (function)");
  EXPECT_EQ(list[0].location(), file + std::to_string(first));
  EXPECT_EQ(list[1].location(), file + std::to_string(first + 1));
  EXPECT_EQ(list[2].location(), file + std::to_string(first + 3));
  EXPECT_EQ(list[3].location(), file + std::to_string(first + 4));
  EXPECT_EQ(list[4].location(), file + std::to_string(first + 8));
}

unsigned lazy_line = 0;
const Rules lazy_lines = [] {
  const Pat i = ints("i");
  lazy_line = __LINE__ + 2;
  return RuleList{
      {i + 0, i},
      {i * 1, i},
  };
};

TEST(Rules, LocationInALazyList) {
  const RuleList& list = lazy_lines.list();
  auto line = [](const Rule& rule) {
    return std::stoi(rule.location().substr(rule.location().find(':') + 1));
  };
  EXPECT_EQ(line(list[1]), line(list[0]) + 1);
  EXPECT_EQ(line(list[0]), lazy_line);
}

TEST(Rules, MistakesInRulesAreFoundWhenTheyAreCompiled) {
  const Pat x = ints("x"), y = ints("y"), c = int_const("c");
  auto one = [](const UOp& u) { return u; };
  auto none = [] { return UOp(); };
  EXPECT_EQ(compile_error({x + 0, x}), "");
  EXPECT_THAT(compile_error({x + 0, y}), HasSubstr("uses y, which the left side x + 0 does not have"));
  EXPECT_THAT(compile_error({x + 0, x, vmin(y) > 0}), HasSubstr("uses y"));
  EXPECT_THAT(compile_error({x + 0, y}), HasSubstr("rules_test.cpp:" + std::to_string(__LINE__)));
  EXPECT_THAT(compile_error({x + y, one}), HasSubstr("x + y captures 2 nodes, but its function takes 1"));
  EXPECT_THAT(compile_error({x + y, none}), HasSubstr("takes 0"));
  EXPECT_THAT(compile_error({each(Op::SINK, x), none}), HasSubstr("can match and not capture x"));
  EXPECT_THAT(compile_error({either({x + 1, y * 2}), none}), HasSubstr("can match and not capture x"));
  EXPECT_EQ(compile_error({either({x + 1, x * 2}), one}), "");
  EXPECT_EQ(compile_error({op(Op::SINK, {x, each(Op::TUPLE, x)}), one}), "");
  EXPECT_THAT(compile_error({x + 0, vmin(x)}), HasSubstr("in conditions only"));
  EXPECT_THAT(compile_error({x + 0, either({x, 1})}), HasSubstr("left sides only"));
  EXPECT_THAT(compile_error({x + 0, op(Op::LOAD, {x})}),
              HasSubstr("LOAD(x): neither a variable nor an elementwise op"));
  EXPECT_THAT(compile_error({x + 0, op(Op::ADD)}), HasSubstr("neither a variable nor"));
  EXPECT_THAT(compile_error({x + 0, op(Op::ADD, {x})}), HasSubstr("wrong number of operands"));
  EXPECT_THAT(compile_error({x + 0, fold(x + 1)}), HasSubstr("must be constants"));
  EXPECT_THAT(compile_error({x + c, exact(op(Op::NEG, {c}))}), HasSubstr("not an op for conditions"));
  EXPECT_THAT(compile_error({x + c, x, vmin(x + 1) > 0}), HasSubstr("of variables only"));
  EXPECT_THAT(compile_error({x + c, x, c > 0.5}), HasSubstr("of integers"));
  EXPECT_THAT(compile_error({x + c, x, no_wrap(x / c)}), HasSubstr("sums and products"));
  EXPECT_THAT(compile_error({fold(x) + c, 0}), HasSubstr("cannot stand on a left side"));
  std::vector<Pat> many;
  for (int i = 0; i < 17; i++) many.push_back(var("v" + std::to_string(i)));
  EXPECT_THAT(compile_error({op(Op::SINK, many), 0}), HasSubstr("more than 16 variables"));
}

TEST(Rules, AFunctionByNameIsNotALiteral) {
  const Rule rule{op(ops::all).as("x") + op(ops::all).as("y"), only_constants};
  EXPECT_TRUE(rule.has_function());
}

}  // namespace
}  // namespace quern
