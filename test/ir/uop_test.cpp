// The node: interning, freeing, changed copies, substitution, walks, order, keys, makers and operators.
#include "quern/ir/uop.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "test/ir/long_chain.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The text of the error that f throws; "" if it throws none.
template <class E = Error, class F>
std::string error(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

UOp var(const char* name, int64_t min = 0, int64_t max = 100) { return UOp::variable(name, min, max); }

// ---- interning
// ------------------------------------------------------------------------------------------------------

TEST(UOp, TheSameNodeIsMadeOnce) {
  const UOp a = var("a"), b = var("b");
  EXPECT_TRUE(same(a, var("a")));
  EXPECT_TRUE(same(a * 2 + b, var("a") * 2 + var("b")));
  EXPECT_EQ((a + b).node(), (a + b).node());
  EXPECT_FALSE(same(a + b, b + a)) << "interning does not reorder operands";
}

TEST(UOp, EveryPartTellsNodesApart) {
  const UOp a = var("a");
  const std::vector<UOp> all = {
      a,
      var("a", 0, 99),
      var("b"),
      UOp::variable("a", 0, 100, dtypes::int32),
      a.rtag("tag"),
      a.rtag(1),
      a.rtag(2),
      a + a,
      a * a,
      UOp::index(1),
      UOp::constant(dtypes::int32, 1),
      UOp::constant(dtypes::bool_, true),
      UOp::constant(dtypes::float32, 0.0),
      UOp::constant(dtypes::float32, -0.0),
      UOp::constant(dtypes::float32, 1.0),
      UOp::constant(dtypes::float32.vec(2), 1.0),
      UOp::make(Op::PARAM, dtypes::int32.ptr(4), {}, 0),
      UOp::make(Op::PARAM, dtypes::int32.ptr(5), {}, 0),
      UOp::make(Op::PARAM, dtypes::int32.ptr(), {}, 0),
      UOp::make(Op::PARAM, dtypes::int32.ptr(4, AddrSpace::LOCAL), {}, 0),
      UOp::range(4, 0),
      UOp::range(4, 1),
      UOp::range(4, 0, AxisKind::REDUCE),
      UOp::range(5, 0),
  };
  for (size_t i = 0; i < all.size(); i++)
    for (size_t j = 0; j < all.size(); j++) EXPECT_EQ(same(all[i], all[j]), i == j) << i << " " << j;
  EXPECT_TRUE(
      same(UOp::constant(dtypes::float32, std::nan("1")), UOp::constant(dtypes::float32, -std::nan("2"))));
}

TEST(UOp, IsFreedWithItsLastReference) {
  const size_t before = live_nodes();
  {
    UOp a = var("freed"), sum = a + 1;
    EXPECT_EQ(live_nodes(), before + 3);
    a = UOp();
    EXPECT_EQ(live_nodes(), before + 3) << "the sum holds its sources";
    UOp copy = sum;
    sum = UOp();
    EXPECT_EQ(live_nodes(), before + 3);
    const UOp moved = std::move(copy);
    EXPECT_EQ(live_nodes(), before + 3);
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(UOp, DerivedFactsDoNotKeepNodesAlive) {
  const size_t before = live_nodes();
  {
    const UOp n = var("n", 1, 8), r = UOp::range(n, 0), inner = UOp::range(r + 1, 1);
    const UOp tensor = UOp::make(Op::PARAM, dtypes::float32, {n, n + 1}, 0);
    EXPECT_EQ((inner * 4 + r).vmax(), 7 * 4 + 7);
    EXPECT_THAT((inner * 4 + r).ranges(), ElementsAre(r, inner));
    EXPECT_THAT(inner.ranges(), ElementsAre(r, inner));
    EXPECT_THAT(r.ranges(), ElementsAre(r));
    EXPECT_EQ(tensor.shape().size(), 2U);
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(UOp, ManySourcesAreInternedAndFreed) {
  const size_t before = live_nodes();
  for (const size_t count : {0, 1, 7, 8, 9, 100, 1000}) {
    UOps sources;
    for (size_t i = 0; i < count; i++) sources.push_back(UOp::index(static_cast<int64_t>(i)));
    const UOp a = UOp::sink(sources), b = UOp::sink(sources);
    EXPECT_TRUE(same(a, b));
    ASSERT_EQ(a.src().size(), count);
    for (size_t i = 0; i < count; i++) EXPECT_TRUE(a.src(i).equals(static_cast<wide>(i)));
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(UOp, TheTableGrowsAndShrinks) {
  const size_t before = live_nodes();
  UOps all;
  for (int i = 0; i < 100'000; i++) all.push_back(UOp::index(i));
  std::shuffle(all.begin(), all.end(), std::mt19937(1));
  for (size_t i = 0; i < all.size(); i += 2) all[i] = UOp();
  for (const UOp& u : all) ASSERT_TRUE(!u || same(u, UOp::index(static_cast<int64_t>(u.int_value()))));
  all.clear();
  EXPECT_EQ(live_nodes(), before);
}

TEST(UOp, AnEmptySourceIsRefused) {
  EXPECT_THAT(error([] { UOp::make(Op::SINK, dtypes::void_, {UOp::index(1), UOp()}); }),
              HasSubstr("SINK: a source is empty"));
}

TEST(UOp, OpsBelow) {
  const UOp x = var("a") * 2 + 1;
  EXPECT_EQ(x.ops_below(), (OpSet{Op::DEFINE_VAR, Op::MUL, Op::ADD, Op::CONST}));
  EXPECT_EQ(UOp::index(1).ops_below(), OpSet(Op::CONST));
}

// ---- changed copies
// --------------------------------------------------------------------------------------------------

TEST(UOp, ReplaceKeepsWhatIsNotNamed) {
  const UOp a = var("a"), b = var("b"), x = (a + b).rtag(7);
  EXPECT_EQ(x.tag(), Arg(7));
  EXPECT_TRUE(same(x.replace({}), x));
  const UOp product = x.replace({.op = Op::MUL});
  EXPECT_EQ(product.op(), Op::MUL);
  EXPECT_EQ(product.tag(), Arg(7)) << "replace keeps the tag";
  EXPECT_TRUE(same(x.replace({.tag = Arg()}), a + b));
  EXPECT_TRUE(same(x.rtag({}), a + b));
  EXPECT_TRUE(same((a + b).with_src(UOps{b, a}), b + a));
  EXPECT_EQ(x.with_src(UOps{b, a}).tag(), Arg(7));
  EXPECT_TRUE(same(UOp::range(4, 0).replace({.arg = RangeArg{3, AxisKind::LOCAL}}),
                   UOp::range(4, 3, AxisKind::LOCAL)));
  EXPECT_TRUE(same(a.replace({.dtype = dtypes::int32}), UOp::variable("a", 0, 100, dtypes::int32)));
}

TEST(UOp, TagsOfEveryKind) {
  const UOp a = var("a");
  for (const Arg& tag : {Arg(1), Arg("text"), Arg(Ints{1, 2}), Arg(Texts{"x"}), Arg(Const::of_float(0.5))}) {
    EXPECT_EQ(a.rtag(tag).tag(), tag);
    EXPECT_FALSE(same(a.rtag(tag), a));
    EXPECT_FALSE(a.rtag(tag).hash() == a.hash());
  }
}

TEST(Arg, AnEmptiedArgumentIsNone) {
  for (Arg arg : {Arg(RangeArg{1, AxisKind::UNROLL}), Arg(Const::invalid()), Arg("text")}) {
    const Arg taken = std::move(arg);
    EXPECT_EQ(arg, Arg());  // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_NE(taken, Arg());
  }
}

// ---- substitution
// ----------------------------------------------------------------------------------------------------

TEST(Substitute, AllAtOnce) {
  const UOp a = var("a"), b = var("b");
  EXPECT_TRUE(same((a * 2 + b).substitute({{a, b}, {b, a}}), b * 2 + a)) << "swapped";
  EXPECT_TRUE(same((a + 1).substitute({{a, a + 1}}), a + 1 + 1)) << "what is put in is not substituted again";
}

TEST(Substitute, OuterKeysWin) {
  const UOp a = var("a"), b = var("b"), sum = a + b;
  EXPECT_TRUE(same((sum * a).substitute({{sum, b}, {a, UOp::index(3)}}), b * 3));
  EXPECT_TRUE(same(sum.substitute({{sum, a}}), a));
}

TEST(Substitute, WhatIsUntouchedKeepsItsPointer) {
  const UOp a = var("a"), b = var("b"), c = var("c"), x = a * b;
  const size_t live = live_nodes();
  EXPECT_TRUE(same(x.substitute({}), x));
  EXPECT_TRUE(same(x.substitute({{c, a}}), x));
  EXPECT_TRUE(same((x + c).substitute({{c, a}}).src(0), x));
  EXPECT_EQ(live_nodes(), live);
}

TEST(Substitute, SharedNodesAreVisitedOnce) {
  const UOp a = var("a"), b = var("b");
  UOp x = a, want = b;
  for (int i = 0; i < 200; i++) x = x + x, want = want + want;  // 2^200 paths
  EXPECT_TRUE(same(x.substitute({{a, b}}), want));
}

TEST(Substitute, KeepsTags) {
  const UOp a = var("a"), b = var("b");
  EXPECT_TRUE(same((a + 1).rtag("t").substitute({{a, b}}), (b + 1).rtag("t")));
}

// ---- walks
// -----------------------------------------------------------------------------------------------------------

TEST(Toposort, SourcesComeFirstAndOnce) {
  const UOp a = var("a"), b = var("b"), sum = a + b, x = sum * a;
  EXPECT_THAT(x.toposort(), ElementsAre(a, b, sum, x));
  EXPECT_THAT(x.backward_slice(), ElementsAre(a, b, sum));
  EXPECT_THAT(a.toposort(), ElementsAre(a));
  EXPECT_TRUE(a.backward_slice().empty());
}

TEST(Toposort, AGateStopsTheDescent) {
  const UOp a = var("a"), b = var("b"), sum = a + b, x = sum * a;
  EXPECT_THAT(x.toposort([&](const UOp& u) { return !same(u, sum); }), ElementsAre(sum, a, x))
      << "the refused node is listed; a is reached on another way, b is not";
  EXPECT_THAT(x.toposort([](const UOp&) { return false; }), ElementsAre(x));
}

TEST(Variables, ByName) {
  const UOp a = var("a"), b = var("b"), c = var("c");
  EXPECT_THAT((c * b + a * b).variables(), ElementsAre(a, b, c));
  EXPECT_TRUE(UOp::index(3).variables().empty());
  EXPECT_THAT(b.bind(3).variables(), ElementsAre(b));
}

// ---- makers
// ----------------------------------------------------------------------------------------------------------

TEST(Variable, IsCheckedWhenMade) {
  EXPECT_EQ(error([] { var("n", 3, 2); }), "variable n: its least value 3 is above its greatest 2");
  EXPECT_THAT(error<DTypeError>([] { UOp::variable("n", 0, 1, dtypes::float32); }), HasSubstr("float32"));
  EXPECT_THAT(error<DTypeError>([] { UOp::variable("n", 0, 1, dtypes::int32.vec(2)); }),
              HasSubstr("int32x2"));
  EXPECT_THAT(error<DTypeError>([] { UOp::variable("n", 0, 128, dtypes::int8); }), HasSubstr("128"));
  EXPECT_THAT(error<DTypeError>([] { UOp::variable("n", -1, 1, dtypes::uint8); }), HasSubstr("-1"));
}

TEST(Variable, IsBoundAndUnbound) {
  const UOp n = var("n", 1, 8), bound = n.bind(5);
  EXPECT_EQ(bound.op(), Op::BIND);
  EXPECT_EQ(bound.unbind(), std::pair(n, int64_t{5}));
  EXPECT_EQ(bound.vmin(), 5);
  EXPECT_EQ(bound.vmax(), 5);
  EXPECT_EQ(error([&] { (void)n.bind(9); }), "bind: 9 is outside the bounds of variable n, 1 to 8");
  EXPECT_THAT(error([&] { (void)n.bind(0); }), HasSubstr("0 is outside"));
  EXPECT_EQ(error([&] { (void)(n + 1).bind(3); }), "bind: only a variable can be bound, not ADD");
  EXPECT_EQ(error([&] { (void)n.unbind(); }), "unbind: not a variable with a value");
  EXPECT_EQ(error([&] { (void)UOp::make(Op::BIND, n.dtype(), {n}).unbind(); }),
            "unbind: not a variable with a value");
}

TEST(Range, IsCheckedWhenMade) {
  EXPECT_THAT(error<ShapeError>([] { UOp::range(0, 3); }), HasSubstr("range 3: a loop of 0 steps"));
  EXPECT_THAT(error<ShapeError>([] { UOp::range(-2, 3); }), HasSubstr("-2 steps"));
  EXPECT_THAT(error<DTypeError>([] { UOp::range(UOp::constant(dtypes::float32, 1.0), 0); }),
              HasSubstr("float32"));
  EXPECT_EQ(UOp::range(UOp::constant(dtypes::int32, 4), 0).dtype(), dtypes::int32);
}

TEST(Constant, OfEveryDType) {
  for (const DType d : dtypes::all) {
    EXPECT_EQ(UOp::constant(d, 1).dtype(), d);
    EXPECT_TRUE(UOp::constant(d, 0).is_const());
    EXPECT_EQ(UOp::constant(d, 1).is_int_const(), !d.is_float());
    if (d.is_float()) continue;
    EXPECT_EQ(UOp::constant(d, int_min(d)).int_value(), int_min(d)) << d.name();
    EXPECT_EQ(UOp::constant(d, int_max(d)).int_value(), int_max(d)) << d.name();
    for (const wide value : {int_min(d) - 1, int_max(d) + 1}) {
      const std::string text = error<DTypeError>([&] { UOp::constant(d, value); });
      EXPECT_THAT(text, HasSubstr(to_string(value)));
      EXPECT_THAT(text, HasSubstr(d.name()));
    }
    EXPECT_NE(error<DTypeError>([&] { UOp::constant(d, 0.5); }), "") << d.name();
    EXPECT_NE(error<DTypeError>([&] { UOp::constant(d, std::nan("")); }), "") << d.name();
  }
  EXPECT_NE(error<DTypeError>([] { UOp::constant(dtypes::void_, 0); }), "");
  EXPECT_NE(error<DTypeError>([] { UOp::constant(dtypes::int32.ptr(), 0); }), "");
}

TEST(Constant, Questions) {
  EXPECT_TRUE(UOp::index(3).equals(3));
  EXPECT_FALSE(UOp::index(3).equals(4));
  EXPECT_TRUE(UOp::boolean(true).equals(1));
  EXPECT_FALSE(UOp::constant(dtypes::float32, 3.0).equals(3)) << "of integers only";
  EXPECT_TRUE(UOp::invalid().is_invalid());
  EXPECT_FALSE(UOp::invalid().equals(0));
  EXPECT_FALSE(UOp::invalid().is_int_const());
  EXPECT_FALSE(var("n").is_invalid());
  EXPECT_EQ(UOp::constant(dtypes::uint64, int_max(dtypes::uint64)).int_value(), int_max(dtypes::uint64));
}

TEST(Cast, KeepsLanesAndIsNothingToTheSameDType) {
  const UOp x = UOp::constant(dtypes::int32, 3);
  EXPECT_TRUE(same(x.cast(dtypes::int32), x));
  EXPECT_EQ(x.cast(dtypes::float32).dtype(), dtypes::float32);
  EXPECT_THAT(error<DTypeError>([&] { (void)x.cast(dtypes::int32.vec(2)); }),
              HasSubstr("cast of int32 to int32x2"));
  EXPECT_NE(error<DTypeError>([&] { (void)x.cast(dtypes::void_); }), "");
  EXPECT_NE(error<DTypeError>([&] { (void)x.cast(dtypes::int32.ptr()); }), "");
  EXPECT_NE(error<DTypeError>([&] { (void)UOp::sink({}).cast(dtypes::int32); }), "");
}

TEST(Cast, OfAPointerMayGroupItsElements) {
  const UOp p = UOp::make(Op::PARAM, dtypes::float32.ptr(16), {}, 0);
  EXPECT_EQ(p.cast(dtypes::float32.vec(4).ptr(4)).dtype(), dtypes::float32.vec(4).ptr(4));
  EXPECT_THAT(error<DTypeError>([&] { (void)p.cast(dtypes::float32.ptr(16, AddrSpace::LOCAL)); }),
              HasSubstr("space"));
}

TEST(Bitcast, KeepsLanesAndBits) {
  const UOp x = UOp::constant(dtypes::int32, 3);
  EXPECT_TRUE(same(x.bitcast(dtypes::int32), x));
  EXPECT_EQ(x.bitcast(dtypes::float32).op(), Op::BITCAST);
  EXPECT_THAT(error<DTypeError>([&] { (void)x.bitcast(dtypes::int16); }),
              HasSubstr("bitcast of int32 to int16"));
  EXPECT_NE(error<DTypeError>([&] { (void)x.bitcast(dtypes::float32.vec(2)); }), "");
}

// ---- operators
// -------------------------------------------------------------------------------------------------------

TEST(Operators, MakeTheOpsTheySay) {
  const UOp a = var("a"), b = var("b");
  const UOp f = UOp::constant(dtypes::float32, 2.0);
  EXPECT_EQ((a + b).op(), Op::ADD);
  EXPECT_TRUE(same(a - b, a + b * -1));
  EXPECT_TRUE(same(-a, a * -1));
  EXPECT_TRUE(same(-f, f * -1.0));
  EXPECT_EQ((a / b).op(), Op::FLOORDIV);
  EXPECT_EQ((f / f).op(), Op::FDIV);
  EXPECT_EQ((a % b).op(), Op::FLOORMOD);
  EXPECT_EQ(truncdiv(a, b).op(), Op::TRUNCDIV);
  EXPECT_EQ(truncmod(a, b).op(), Op::TRUNCMOD);
  EXPECT_EQ((a << b).op(), Op::SHL);
  EXPECT_EQ((a >> b).op(), Op::SHR);
  EXPECT_TRUE(same(a > b, b < a));
  EXPECT_TRUE(same(a >= b, b <= a));
  EXPECT_EQ((a < b).dtype(), dtypes::bool_);
  EXPECT_EQ(eq(a, b).op(), Op::CMPEQ);
  EXPECT_EQ(ne(a, b).dtype(), dtypes::bool_);
  EXPECT_TRUE(same(~(a < b), (a < b) ^ UOp::boolean(true)));
  EXPECT_TRUE(same(~a, a ^ -1));
  EXPECT_EQ(where(a < b, a, b).dtype(), dtypes::index);
  EXPECT_EQ(max(a, 3).op(), Op::MAX);
  EXPECT_EQ(min(3, a).src(0).int_value(), 3);
  const UOp byte = UOp::variable("u", 0, 9, dtypes::uint8);
  EXPECT_EQ((-byte).src(1).int_value(), 255) << "all ones";
  EXPECT_EQ((~byte).src(1).int_value(), 255);
  const UOp v = UOp::constant(dtypes::float32.vec(4), 2.0);
  EXPECT_EQ((v < v + 1.0).dtype(), dtypes::bool_.vec(4));
}

TEST(Operators, RefuseWhatCannotBe) {
  const UOp i = UOp::constant(dtypes::int32, 3), j = UOp::constant(dtypes::int64, 3);
  const UOp f = UOp::constant(dtypes::float32, 3.0), t = UOp::boolean(true);
  const UOp p = UOp::make(Op::PARAM, dtypes::int32.ptr(4), {}, 0), none = UOp::sink({});
  EXPECT_EQ(error<DTypeError>([&] { i + j; }),
            "ADD(int32, int64): the operands must have one dtype; cast one of them");
  EXPECT_EQ(error<DTypeError>([&] { f & f; }), "AND(float32, float32): needs integers or bools");
  EXPECT_EQ(error<DTypeError>([&] { f << f; }), "SHL(float32, float32): needs integers");
  EXPECT_EQ(error<DTypeError>([&] { f % f; }), "FLOORMOD(float32, float32): needs integers");
  EXPECT_EQ(error<DTypeError>([&] { t / t; }), "FLOORDIV(bool, bool): needs integers");
  EXPECT_EQ(error<DTypeError>([&] { p + p; }),
            "ADD(int32*[4], int32*[4]): there is no arithmetic on this type");
  EXPECT_NE(error<DTypeError>([&] { none + none; }), "");
  EXPECT_NE(error<DTypeError>([&] { UOp::alu(Op::SQRT, {i}); }), "");
  EXPECT_NE(error<DTypeError>([&] { UOp::alu(Op::THREEFRY, {i, i}); }), "");
  EXPECT_THAT(error<DTypeError>([&] { where(i, i, i); }), HasSubstr("the condition must be a bool"));
  EXPECT_THAT(error<DTypeError>([&] { where(t, i, f); }), HasSubstr("one dtype"));
  EXPECT_THAT(error([&] { UOp::alu(Op::ADD, {i}); }), HasSubstr("not an elementwise op with 1 operands"));
  EXPECT_THAT(error([&] { UOp::alu(Op::SINK, {i}); }), HasSubstr("SINK"));
  EXPECT_NE(error<DTypeError>([&] { -t; }), "");
  EXPECT_NE(error<DTypeError>([&] { -p; }), "") << "a user's mistake, not ours";
  EXPECT_NE(error<DTypeError>([&] { -none; }), "");
  EXPECT_NE(error<DTypeError>([&] { ~f; }), "");
  EXPECT_NE(error<DTypeError>([&] { ~p; }), "");
  for (const DType d : dtypes::all) {
    if (!d.is_int()) continue;
    const UOp x = UOp::constant(d, 3);
    EXPECT_THAT(error([&] { x / 0; }), HasSubstr("by the constant 0")) << d.name();
    EXPECT_THAT(error([&] { x % 0; }), HasSubstr("by the constant 0")) << d.name();
    EXPECT_THAT(error([&] { truncdiv(x, 0); }), HasSubstr("by the constant 0")) << d.name();
    EXPECT_THAT(error([&] { truncmod(x, 0); }), HasSubstr("by the constant 0")) << d.name();
    EXPECT_NE(error<DTypeError>([&] { x + (int_max(d) > int_max(dtypes::int64) ? -1.0 : 1e30); }), "")
        << d.name();
  }
  EXPECT_EQ((f / 0.0).op(), Op::FDIV) << "floats may be divided by 0";
}

// ---- order and keys
// --------------------------------------------------------------------------------------------------

UOps random_nodes(unsigned seed, int count) {
  std::mt19937 random(seed);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  UOps all = {var("a"),
              var("b"),
              var("a", 0, 9),
              UOp::range(4, 0),
              UOp::range(4, 1, AxisKind::REDUCE),
              UOp::index(0),
              UOp::index(1),
              UOp::index(-1),
              UOp::make(Op::SPECIAL, dtypes::index, {UOp::index(9)}, "g")};
  constexpr std::array binary = {Op::ADD, Op::MUL, Op::MAX, Op::SUB, Op::AND};
  while (std::ssize(all) < count) {
    const UOp a = all[below(all.size())], b = all[below(all.size())];
    all.push_back(below(8) == 0 ? a.rtag(static_cast<int64_t>(below(3)))
                                : UOp::alu(binary[below(binary.size())], {a, b}));
  }
  return all;
}

TEST(Compare, IsATotalOrder) {
  const UOps all = random_nodes(7, 120);
  for (const UOp& a : all)
    for (const UOp& b : all) {
      EXPECT_EQ(compare(a, b) == 0, same(a, b));
      EXPECT_EQ(compare(a, b) > 0, compare(b, a) < 0);
      for (const UOp& c : all) EXPECT_TRUE(compare(a, b) > 0 || compare(b, c) > 0 || compare(a, c) <= 0);
    }
}

TEST(Compare, PutsVariablesFirstAndConstantsLast) {
  const UOp a = var("a"), b = var("b"), r = UOp::range(4, 0), s = UOp::range(4, 1), c = UOp::index(-5);
  UOps all = {c, a * b, s, b, r, a};
  std::sort(all.begin(), all.end(), before);
  EXPECT_THAT(all, ElementsAre(a, b, r, s, a * b, c));
}

TEST(Compare, DoesNotDependOnTheOrderOfCreation) {
  const auto in_order = [](unsigned seed) {
    // Other nodes take the addresses and ids that the first run used.
    UOps between;
    for (unsigned i = 0; i < 1000 * seed; i++) between.push_back(UOp::index(1'000'000 + i));
    UOps all = random_nodes(3, 60);
    std::shuffle(all.begin(), all.end(), std::mt19937(seed));
    std::sort(all.begin(), all.end(), before);
    std::vector<std::string> keys;
    for (const UOp& u : all) keys.push_back(u.key());
    return keys;
  };
  const auto first = in_order(0);
  EXPECT_EQ(first, in_order(1));
  EXPECT_EQ(first, in_order(2));
}

TEST(Key, TellsNodesApart) {
  std::set<std::string> keys;
  const UOps all = random_nodes(11, 500);
  std::set<const detail::Node*> nodes;
  for (const UOp& u : all) {
    EXPECT_EQ(u.key().size(), 32U);
    keys.insert(u.key()), nodes.insert(u.node());
  }
  EXPECT_EQ(keys.size(), nodes.size());
  EXPECT_NE(var("a").key(), var("a").rtag(1).key());
}

std::string keys_of_this_process() {
  std::string lines;
  const UOp x = UOp::make(Op::PARAM, dtypes::float32.ptr(64), {}, 0), r = UOp::range(64, 0);
  for (const UOp& u : random_nodes(5, 100)) lines += fmt::format("key {}\n", u.key());
  const UOp stage = UOp::make(Op::STAGE, dtypes::float32, {UOp::constant(dtypes::float32, 0.1), r},
                              StageArg{AddrSpace::LOCAL, {"CPU"}, false, "why"});
  const UOp sink = UOp::make(Op::SINK, dtypes::void_, {stage, UOp::make(Op::INDEX, dtypes::float32, {x, r})},
                             KernelArg{"name", {"opt"}, {"reason"}});
  return lines + fmt::format("key {}\n", sink.key());
}

TEST(Key, DISABLED_Print) { std::printf("%s", keys_of_this_process().c_str()); }  // run by the next test

TEST(Key, IsTheSameInAnotherProcess) {
  std::array<char, 4096> path{};
  ASSERT_GT(readlink("/proc/self/exe", path.data(), path.size() - 1), 0);
  const std::string command =
      fmt::format("'{}' --gtest_filter=Key.DISABLED_Print --gtest_also_run_disabled_tests", path.data());
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  ASSERT_TRUE(pipe);
  std::string lines;
  std::array<char, 4096> line{};
  while (fgets(line.data(), line.size(), pipe.get()))
    if (std::string_view(line.data()).starts_with("key ")) lines += line.data();
  EXPECT_EQ(lines, keys_of_this_process());
}

// ---- depth
// -----------------------------------------------------------------------------------------------------------

TEST(Deep, AChainIsBuiltWalkedChangedAndFreed) {
  const size_t before = live_nodes();
  {
    const UOp n = var("deep", 0, 3), m = var("deeper", 0, 3), r = UOp::range(4, 0);
    UOp x = n + r;
    for (int i = 0; i < kLongChain; i++) x = max(x, i % 7);
    EXPECT_EQ(std::ssize(x.toposort()), kLongChain + 3 + 1 + 7 - 1)
        << "n, r, n + r, and the constants 0 to 6 and 4";
    EXPECT_EQ(x.vmax(), 6);
    EXPECT_TRUE(x.shape().empty());
    EXPECT_THAT(x.ranges(), ElementsAre(r));
    EXPECT_THAT(x.variables(), ElementsAre(n));
    EXPECT_TRUE(x.device().empty());
    EXPECT_EQ(x.key().size(), 32U);
    const UOp y = x.substitute({{n, m}});
    EXPECT_THAT(y.variables(), ElementsAre(m));
    EXPECT_TRUE(same(y.substitute({{m, n}}), x));
    EXPECT_NE(compare(x, y), 0);
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(Deep, AChainOfTensors) {
  const size_t before = live_nodes();
  {
    UOp x = UOp::make(Op::PARAM, dtypes::float32, {UOp::index(2), UOp::index(3)}, 0);
    for (int i = 0; i < kLongChain / 10; i++)
      x = UOp::make(Op::PERMUTE, dtypes::float32, {UOp::alu(Op::EXP2, {x})}, Ints{1, 0});
    EXPECT_EQ(x.int_shape(), (Ints{2, 3}));
  }
  EXPECT_EQ(live_nodes(), before);
}

}  // namespace
}  // namespace quern
