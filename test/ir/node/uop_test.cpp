// The node: interning, freeing, changed copies, substitution, walks, order and keys.
#include "quern/ir/node/uop.h"

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

#include "test/error_of.h"
#include "test/ir/long_chain.h"
#include "test/ir/variables.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- interning

TEST(UOp, TheSameNodeIsMadeOnce) {
  const UOp a = variable("a"), b = variable("b");
  EXPECT_TRUE(same(a, variable("a")));
  EXPECT_TRUE(same(a * 2 + b, variable("a") * 2 + variable("b")));
  EXPECT_EQ((a + b).node(), (a + b).node());
  EXPECT_FALSE(same(a + b, b + a)) << "interning does not reorder operands";
}

TEST(UOp, EveryPartTellsNodesApart) {
  const UOp a = variable("a");
  const std::vector<UOp> all = {
      a,
      variable("a", 0, 99),
      variable("b"),
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
    UOp a = variable("freed"), sum = a + 98765;  // a number that nobody else holds
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
    const UOp n = variable("n", 1, 8), r = UOp::range(n, 0), inner = UOp::range(r + 1, 1);
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
  EXPECT_THAT(error_of([] { UOp::make(Op::SINK, dtypes::void_, {UOp::index(1), UOp()}); }),
              HasSubstr("SINK: a source is empty"));
}

// What is refused is freed, too: by a destructor, which may not throw.
TEST(UOp, AnIdentityWithoutANumberIsFreed) {
  static bool told = false;
  const auto tell = [](int64_t) noexcept { told = true; };
  on_identity_freed(tell);
  for (const Arg& arg : {Arg(), Arg("text"), Arg(Ints{1})})
    (void)UOp::make(Op::UNIQUE, dtypes::void_, {}, arg);
  EXPECT_FALSE(told);
  (void)UOp::make(Op::UNIQUE, dtypes::void_, {}, int64_t{1} << 60);
  EXPECT_TRUE(told);
  no_more_on_identity_freed(tell);
}

TEST(UOp, OpsBelow) {
  const UOp x = variable("a") * 2 + 1;
  EXPECT_EQ(x.ops_below(), (OpSet{Op::DEFINE_VAR, Op::MUL, Op::ADD, Op::CONST}));
  EXPECT_EQ(UOp::index(1).ops_below(), OpSet(Op::CONST));
}

// ---- changed copies

TEST(UOp, ReplaceKeepsWhatIsNotNamed) {
  const UOp a = variable("a"), b = variable("b"), x = (a + b).rtag(7);
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
  const UOp a = variable("a");
  for (const Arg& tag : {Arg(1), Arg("text"), Arg(Ints{1, 2}), Arg(Texts{"x"}), Arg(Const::of_float(0.5))}) {
    EXPECT_EQ(a.rtag(tag).tag(), tag);
    EXPECT_FALSE(same(a.rtag(tag), a));
    EXPECT_FALSE(a.rtag(tag).hash() == a.hash());
  }
}

TEST(UOp, Hints) {
  const UOp a = variable("a");
  EXPECT_EQ(a.hints(), Hints());
  EXPECT_EQ(a.rtag("text").hints(), Hints()) << "another tag has none";
  const UOp both = a.with_hint(&Hints::stream, true).with_hint(&Hints::reason, "why");
  EXPECT_TRUE(both.hints().stream);
  EXPECT_EQ(both.hints().reason, "why");
  EXPECT_FALSE(both.hints().rare);
  EXPECT_TRUE(same(both, a.with_hint(&Hints::reason, "why").with_hint(&Hints::stream, true)));
  EXPECT_FALSE(same(both, a.with_hint(&Hints::stream, true)));
  EXPECT_NE(both.key(), a.with_hint(&Hints::reason, "why").key());
}

TEST(Arg, AnEmptiedArgumentIsNone) {
  for (Arg arg : {Arg(RangeArg{1, AxisKind::UNROLL}), Arg(Const::invalid()), Arg("text")}) {
    const Arg taken = std::move(arg);
    EXPECT_EQ(arg, Arg());  // NOLINT(bugprone-use-after-move): that is what is tested
    EXPECT_NE(taken, Arg());
  }
}

// ---- substitution

TEST(Substitute, AllAtOnce) {
  const UOp a = variable("a"), b = variable("b");
  EXPECT_TRUE(same((a * 2 + b).substitute({{a, b}, {b, a}}), b * 2 + a)) << "swapped";
  EXPECT_TRUE(same((a + 1).substitute({{a, a + 1}}), a + 1 + 1)) << "what is put in is not substituted again";
}

TEST(Substitute, OuterKeysWin) {
  const UOp a = variable("a"), b = variable("b"), sum = a + b;
  EXPECT_TRUE(same((sum * a).substitute({{sum, b}, {a, UOp::index(3)}}), b * 3));
  EXPECT_TRUE(same(sum.substitute({{sum, a}}), a));
}

TEST(Substitute, WhatIsUntouchedKeepsItsPointer) {
  const UOp a = variable("a"), b = variable("b"), c = variable("c"), x = a * b;
  const size_t live = live_nodes();
  EXPECT_TRUE(same(x.substitute({}), x));
  EXPECT_TRUE(same(x.substitute({{c, a}}), x));
  EXPECT_TRUE(same((x + c).substitute({{c, a}}).src(0), x));
  EXPECT_EQ(live_nodes(), live);
}

TEST(Substitute, SharedNodesAreVisitedOnce) {
  const UOp a = variable("a"), b = variable("b");
  UOp x = a, want = b;
  for (int i = 0; i < 200; i++) x = x + x, want = want + want;  // 2^200 paths
  EXPECT_TRUE(same(x.substitute({{a, b}}), want));
}

TEST(Substitute, KeepsTags) {
  const UOp a = variable("a"), b = variable("b");
  EXPECT_TRUE(same((a + 1).rtag("t").substitute({{a, b}}), (b + 1).rtag("t")));
}

// ---- walks

TEST(Toposort, SourcesComeFirstAndOnce) {
  const UOp a = variable("a"), b = variable("b"), sum = a + b, x = sum * a;
  EXPECT_THAT(x.toposort(), ElementsAre(a, b, sum, x));
  EXPECT_THAT(x.backward_slice(), ElementsAre(a, b, sum));
  EXPECT_THAT(a.toposort(), ElementsAre(a));
  EXPECT_TRUE(a.backward_slice().empty());
}

TEST(Toposort, AGateStopsTheDescent) {
  const UOp a = variable("a"), b = variable("b"), sum = a + b, x = sum * a;
  EXPECT_THAT(x.toposort([&](const UOp& u) { return !same(u, sum); }), ElementsAre(sum, a, x))
      << "the refused node is listed; a is reached on another way, b is not";
  EXPECT_THAT(x.toposort([](const UOp&) { return false; }), ElementsAre(x));
}

TEST(Variables, ByName) {
  const UOp a = variable("a"), b = variable("b"), c = variable("c");
  EXPECT_THAT((c * b + a * b).variables(), ElementsAre(a, b, c));
  EXPECT_TRUE(UOp::index(3).variables().empty());
  EXPECT_THAT(b.bind(3).variables(), ElementsAre(b));
}

// ---- order and keys

UOps random_nodes(unsigned seed, int count) {
  std::mt19937 random(seed);
  auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  UOps all = {variable("a"),
              variable("b"),
              variable("a", 0, 9),
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
  const UOp a = variable("a"), b = variable("b"), r = UOp::range(4, 0), s = UOp::range(4, 1),
            c = UOp::index(-5);
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
  EXPECT_NE(variable("a").key(), variable("a").rtag(1).key());
}

std::string keys_of_this_process() {
  std::string lines;
  const UOp x = UOp::make(Op::PARAM, dtypes::float32.ptr(64), {}, 0), r = UOp::range(64, 0);
  for (const UOp& u : random_nodes(5, 100)) lines += fmt::format("key {}\n", u.key());
  const UOp stage = UOp::make(Op::STAGE, dtypes::float32, {UOp::constant(dtypes::float32, 0.1), r},
                              StageArg{AddrSpace::LOCAL, {"CPU"}, false, "why"});
  const UOp sink = UOp::make(Op::SINK, dtypes::void_, {stage, UOp::make(Op::INDEX, dtypes::float32, {x, r})},
                             KernelArg{"name", {"opt"}});
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

TEST(Deep, AChainIsBuiltWalkedChangedAndFreed) {
  const size_t before = live_nodes();
  {
    const UOp n = variable("deep", 0, 3), m = variable("deeper", 0, 3), r = UOp::range(4, 0);
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

TEST(Errors, AMistakeOfQuernIsAnErrorToo) {
  const auto fail = [] { QUERN_CHECK(false, "no"); };
  EXPECT_THROW(fail(), InternalError);
  EXPECT_THROW(fail(), Error);
}

}  // namespace
}  // namespace quern
