// What patterns match, and how they read.
#include "quern/ir/rules/pattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quern/ir/rules/rules.h"
#include "test/ir/variables.h"

namespace quern {
namespace {

const UOp matched = UOp::make(Op::NOOP, dtypes::void_, {}, {}, "matched");

// Does the pattern, which captures nothing, match?
bool matches(const Pat& pattern, const UOp& node) {
  const Rules rules = RuleList{{pattern.as("all"), [](const UOp&) { return matched; }}};
  return static_cast<bool>(rules.apply(node).result);
}
bool matches_without_names(const Pat& pattern, const UOp& node) {
  const Rules rules = RuleList{{pattern, [] { return matched; }}};
  return static_cast<bool>(rules.apply(node).result);
}

TEST(Pattern, OneOpOrASetOfOps) {
  EXPECT_TRUE(matches(op(Op::ADD), kN + kM));
  EXPECT_FALSE(matches(op(Op::MUL), kN + kM));
  EXPECT_TRUE(matches(op({Op::MUL, Op::ADD}), kN + kM));
  EXPECT_TRUE(matches(op({Op::MUL, Op::ADD}), kN * kM));
  EXPECT_FALSE(matches(op({Op::MUL, Op::ADD}), kN));
  EXPECT_TRUE(matches(op(ops::elementwise), kN < kM));
  EXPECT_FALSE(matches(op(ops::movement), kN < kM));
}

TEST(Pattern, ExactNumberOfSources) {
  const Pat x = op(ops::all);
  const UOp three = UOp::sink(UOps{kN, kM, kN});
  EXPECT_TRUE(matches(op(Op::SINK, {x, x, x}), three));
  EXPECT_FALSE(matches(op(Op::SINK, {x, x}), three));
  EXPECT_FALSE(matches(op(Op::SINK, {x, x, x, x}), three));
  EXPECT_TRUE(matches(op(Op::SINK, std::vector<Pat>{}), UOp::sink({})));
  EXPECT_FALSE(matches(op(Op::SINK, std::vector<Pat>{}), three));
}

TEST(Pattern, PrefixOfSources) {
  const Pat v = op(Op::DEFINE_VAR), x = op(ops::all);
  const UOp two = UOp::sink(UOps{kN, kN + 1});
  EXPECT_TRUE(matches(op(Op::SINK, {v}).and_more(), two));
  EXPECT_TRUE(matches(op(Op::SINK, {v, x}).and_more(), two));
  EXPECT_FALSE(matches(op(Op::SINK, {v, v}).and_more(), two));
  EXPECT_FALSE(matches(op(Op::SINK, {v, x, x}).and_more(), two));
}

TEST(Pattern, EverySource) {
  const Pat all_variables = each(Op::SINK, op(Op::DEFINE_VAR));
  EXPECT_TRUE(matches(all_variables, UOp::sink({})));
  EXPECT_TRUE(matches(all_variables, UOp::sink(UOps{kN})));
  EXPECT_TRUE(matches(all_variables, UOp::sink(UOps{kN, kM, kN, kM})));
  EXPECT_FALSE(matches(all_variables, UOp::sink(UOps{kN, kM, kN + 1})));
}

TEST(Pattern, DTypes) {
  const Pat x = op(ops::all);
  EXPECT_TRUE(matches(x.of(dtypes::int32), whole(3)));
  EXPECT_FALSE(matches(x.of(dtypes::int32), kN));
  EXPECT_FALSE(matches(x.of(dtypes::int32), UOp::constant(dtypes::int32.vec(4), 3)));
  EXPECT_TRUE(matches(op(Op::ADD).of(dtypes::index), kN + 1));
}

TEST(Pattern, ClassesOfTypes) {
  const UOp u8 = UOp::constant(dtypes::uint8, 3), half = UOp::constant(dtypes::float16, 0.5);
  const UOp pointer = UOp::make(Op::PARAM, dtypes::int32.ptr(4), {}, 0);
  auto takes = [](Types types, const UOp& u) { return matches(op(ops::all).of(types), u); };
  for (const UOp& u : {kN, whole(3), u8}) {
    EXPECT_TRUE(takes(types::ints, u));
    EXPECT_TRUE(takes(types::exact, u));
    EXPECT_FALSE(takes(types::floats, u));
    EXPECT_FALSE(takes(types::bools, u));
  }
  EXPECT_TRUE(takes(types::index, kN));
  EXPECT_FALSE(takes(types::index, whole(3)));
  EXPECT_TRUE(takes(types::unsigned_ints, u8));
  EXPECT_FALSE(takes(types::signed_ints, u8));
  EXPECT_TRUE(takes(types::bools, kN < kM));
  EXPECT_TRUE(takes(types::exact, kN < kM));
  EXPECT_TRUE(takes(types::floats, half));
  EXPECT_TRUE(takes(types::values, half));
  EXPECT_TRUE(takes(types::ints, UOp::constant(dtypes::int32.vec(4), 3))) << "a vector of them too";
  EXPECT_TRUE(takes(types::any, pointer));
  EXPECT_FALSE(takes(types::ints, pointer)) << "a pointer is not what it points to";
  EXPECT_FALSE(takes(types::values, UOp::sink({})));
}

TEST(Pattern, ArgumentsAndTags) {
  const UOp x = UOp::make(Op::PARAM, dtypes::int32, {}, 1), tagged = x.rtag(7);
  EXPECT_TRUE(matches(op(Op::PARAM).with(1), x));
  EXPECT_FALSE(matches(op(Op::PARAM).with(2), x));
  EXPECT_FALSE(matches(op(Op::PARAM).with("1"), x));
  EXPECT_FALSE(matches(op(Op::PARAM).with(Arg()), x));
  EXPECT_TRUE(matches(op(Op::PARAM), tagged)) << "a tag does not matter unless it is asked for";
  EXPECT_TRUE(matches(op(Op::PARAM).tagged(7), tagged));
  EXPECT_FALSE(matches(op(Op::PARAM).tagged(8), tagged));
  EXPECT_FALSE(matches(op(Op::PARAM).tagged(Arg()), tagged));
  EXPECT_TRUE(matches(op(Op::PARAM).tagged(Arg()), x));
  const Pat permute = op(Op::PERMUTE).with(Ints{1, 0});
  EXPECT_TRUE(matches(permute, UOp::make(Op::PERMUTE, dtypes::int32, {x}, Ints{1, 0})));
  EXPECT_FALSE(matches(permute, UOp::make(Op::PERMUTE, dtypes::int32, {x}, Ints{0, 1})));
}

TEST(Pattern, WholeNumbers) {
  EXPECT_TRUE(matches(3, UOp::index(3)));
  EXPECT_FALSE(matches(3, UOp::index(4)));
  EXPECT_FALSE(matches(3, kN));
  EXPECT_TRUE(matches(3, whole(3)));
  EXPECT_TRUE(matches(3, floating(3.0))) << "a whole number stands for that value of any type";
  EXPECT_FALSE(matches(3, floating(3.5)));
  EXPECT_TRUE(matches(-1, whole(-1)));
  EXPECT_TRUE(matches(-1, UOp::constant(dtypes::uint8, 255))) << "in the arithmetic of the type";
  EXPECT_TRUE(matches(1, UOp::boolean(true)));
  EXPECT_FALSE(matches(0, UOp::boolean(true)));
  EXPECT_FALSE(matches(0, UOp::invalid()));
}

TEST(Pattern, FloatsAreComparedByBits) {
  EXPECT_TRUE(matches(0, floating(0.0)));
  EXPECT_FALSE(matches(0, floating(-0.0)));
  EXPECT_TRUE(matches(0.0, floating(0.0)));
  EXPECT_FALSE(matches(0.0, floating(-0.0)));
  EXPECT_TRUE(matches(-0.0, floating(-0.0)));
  EXPECT_TRUE(matches(0.5, floating(0.5)));
  EXPECT_FALSE(matches(0.5, whole(0)));
  EXPECT_FALSE(matches(1.0, whole(1))) << "a float literal stands for floats only";
  EXPECT_TRUE(matches(std::nan(""), floating(std::nan(""))));
}

TEST(Pattern, FloatsAreTheNearestOfTheirType) {
  EXPECT_TRUE(matches(0.1, floating(0.1)));
  EXPECT_TRUE(matches(0.1, UOp::constant(dtypes::float64, 0.1)));
  EXPECT_TRUE(matches(0.1, UOp::constant(dtypes::float16, 0.1)));
  EXPECT_FALSE(matches(0.1, floating(0.1000001)));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(matches(infinity, floating(infinity)));
  EXPECT_FALSE(matches(1e300, floating(infinity)));
}

TEST(Pattern, Booleans) {
  EXPECT_TRUE(matches(true, UOp::boolean(true)));
  EXPECT_FALSE(matches(true, UOp::boolean(false)));
  EXPECT_FALSE(matches(true, UOp::index(1))) << "true is of bools only";
  EXPECT_FALSE(matches(true, floating(1.0)));
}

TEST(Pattern, ConstantsAndInvalid) {
  EXPECT_TRUE(matches(int_const("c"), UOp::index(4)));
  EXPECT_FALSE(matches(int_const("c"), kN));
  EXPECT_FALSE(matches(int_const("c"), floating(1)));
  EXPECT_FALSE(matches(int_const("c"), UOp::invalid()));
  EXPECT_FALSE(matches(constant("c"), UOp::invalid()));
  EXPECT_TRUE(matches(float_const("c"), floating(1)));
  EXPECT_TRUE(matches(invalid(), UOp::invalid()));
  EXPECT_FALSE(matches(invalid(), UOp::index(0)));
  EXPECT_TRUE(matches(var("x"), UOp::invalid()));
  EXPECT_TRUE(matches(either({int_const("c").as(""), invalid()}), UOp::invalid()));
}

TEST(Pattern, AVariableTwiceIsTheSameNodeTwice) {
  const Pat x = var("x"), y = var("y");
  const Rules rules{{x + x, x * 2}};
  EXPECT_TRUE(rules.apply(kN + kN).result == kN * 2);
  EXPECT_FALSE(rules.apply(kN + kM).result);
  const Rules nested{{op(Op::MUL, {x + y, x % y}), x}};
  EXPECT_TRUE(nested.apply((kN + kM) * (kN % kM)).result == kN);
  EXPECT_TRUE(nested.apply((kM + kN) * (kN % kM)).result == kN) << "the order of the sum is free";
  EXPECT_TRUE(nested.apply((kN % kM) * (kM + kN)).result == kN);
  EXPECT_FALSE(nested.apply((kN + kM) * (kN % (kM + 1))).result);
}

TEST(Pattern, CommutativeOperandsMatchInEitherOrder) {
  const Pat x = var("x");
  EXPECT_TRUE(matches_without_names(op(ops::all) + 1, kN + 1));
  EXPECT_TRUE(
      matches_without_names(op(ops::all) + 1, UOp::make(Op::ADD, dtypes::index, {UOp::index(1), kN})));
  EXPECT_FALSE(
      matches_without_names(op(ops::all) % 2, UOp::make(Op::FLOORMOD, dtypes::index, {UOp::index(2), kN})));
  const Rules rules{{(x * 2) + (x * 3), x * 5}};
  auto product = [](const UOp& u, int factor, bool swap) {
    const UOp c = UOp::index(factor);
    return swap ? UOp::make(Op::MUL, dtypes::index, {c, u}) : UOp::make(Op::MUL, dtypes::index, {u, c});
  };
  for (int orders = 0; orders < 8; orders++) {
    const UOp two = product(kN, 2, (orders & 1) != 0), three = product(kN, 3, (orders & 2) != 0);
    const UOp sum = (orders & 4) != 0 ? UOp::make(Op::ADD, dtypes::index, {three, two})
                                      : UOp::make(Op::ADD, dtypes::index, {two, three});
    EXPECT_TRUE(rules.apply(sum).result == kN * 5) << sum.text();
  }
  EXPECT_FALSE(rules.apply(kN * 2 + kM * 3).result);
}

TEST(Pattern, TheFirstAlternativeThatMatches) {
  const Pat x = var("x");
  const Rules rules{{either({x + 1, x * 2}), x}};
  EXPECT_TRUE(rules.apply(kN + 1).result == kN);
  EXPECT_TRUE(rules.apply(kN * 2).result == kN);
  EXPECT_FALSE(rules.apply(kN * 3).result);
  EXPECT_EQ(rules.roots(), OpSet({Op::ADD, Op::MUL}));
  const Rules inside{{op(Op::CMPLT, {either({x + 1, x}), x}), true}};
  EXPECT_TRUE(inside.apply(kN + 1 < kN).result);
  EXPECT_TRUE(inside.apply(kN < kN).result) << "the second alternative, after the first failed";
  EXPECT_TRUE(inside.apply(kN + 1 < kN + 1).result) << "the first matched, and what followed did not";
  EXPECT_FALSE(inside.apply(kN + 1 < kM).result);
}

TEST(Pattern, AlternativesAndLiteralsCanBeCapturedAndNarrowed) {
  const Pat x = var("x"), e = either({op(Op::ADD), op(Op::MUL)}).as("e");
  const Rules rules{{e % x, e}};
  EXPECT_TRUE(rules.apply((kN + 1) % kM).result == kN + 1);
  EXPECT_TRUE(rules.apply((kN * 3) % kM).result == kN * 3);
  EXPECT_FALSE(rules.apply(kN % kM).result);
  const Rules literal{{x + Pat(0).as("zero"), Pat(0).as("zero")}};
  EXPECT_TRUE(literal.apply(kN + 0).result == UOp::index(0));
  EXPECT_TRUE(matches(either({op(Op::ADD), op(Op::MUL)}).of(dtypes::index), kN + 1));
  EXPECT_FALSE(matches(either({op(Op::ADD), op(Op::MUL)}).of(dtypes::int32), kN + 1));
  EXPECT_FALSE(matches(either({op(Op::ADD), op(Op::MUL)}).of(types::floats), kN + 1));
  EXPECT_TRUE(matches(either({op(Op::ADD), op(Op::MUL)}).tagged(7), (kN + 1).rtag(7)));
  EXPECT_FALSE(matches(either({op(Op::ADD), op(Op::MUL)}).tagged(7), kN + 1));
  EXPECT_TRUE(matches(Pat(1).of(dtypes::int32), whole(1)));
  EXPECT_FALSE(matches(Pat(1).of(dtypes::int32), UOp::index(1)));
}

TEST(Pattern, ChainsUpwards) {
  const UOp memory = UOp::make(Op::PARAM, dtypes::float32.ptr(16), {}, 0);
  const UOp address = UOp::make(Op::INDEX, memory.dtype(), {memory, kN});
  const UOp load = UOp::make(Op::LOAD, dtypes::float32, {address});
  const Pat x = op(Op::PARAM).as("x"), i = var("i");
  const Rules any_index{{x.f(Op::INDEX).f(Op::LOAD), x}};
  EXPECT_TRUE(any_index.apply(load).result == memory);
  const Rules with_index{{x.f(Op::INDEX, {i}).f(Op::LOAD), i}};
  EXPECT_TRUE(with_index.apply(load).result == kN);
  EXPECT_FALSE(with_index.apply(UOp::make(Op::LOAD, dtypes::float32, {memory})).result);
  const Rules wider{{x.f({Op::INDEX, Op::SLICE}), x}};
  EXPECT_EQ(wider.roots(), OpSet({Op::INDEX, Op::SLICE}));
  EXPECT_TRUE(wider.apply(address).result == memory);
}

TEST(Pattern, Text) {
  const Pat x = ints("x"), c = int_const("c"), y = floats("y");
  EXPECT_EQ((x + 0).text(), "x + 0");
  EXPECT_EQ(((x + 1) * c).text(), "(x + 1) * c");
  EXPECT_EQ((x / c).text(), "x // c");
  EXPECT_EQ((y / 2.0).text(), "y / 2.0");
  EXPECT_EQ((x % c == 0).text(), "(x % c) == 0");
  EXPECT_EQ(max(x, c).text(), "max(x, c)");
  EXPECT_EQ(where(x < c, x, 0).text(), "where(x < c, x, 0)");
  EXPECT_EQ(op(Op::SINK).text(), "SINK()");
  EXPECT_EQ(op({Op::ADD, Op::MUL}, {x, c}).as("u").text(), "u:ADD|MUL(x, c)");
  EXPECT_EQ(op(Op::PARAM).as("p").f(Op::INDEX).text(), "INDEX(p:PARAM(), ...)");
  EXPECT_EQ(either({x + 1, x}).text(), "either(x + 1, x)");
  EXPECT_EQ(vmin(x).text(), "vmin(x)");
  EXPECT_EQ(Pat().text(), "none");
}

}  // namespace
}  // namespace quern
