// graph_rewrite: what it visits, in which order, and how it ends.
#include "quern/ir/rewrite/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "test/ir/long_chain.h"
#include "test/ir/variables.h"

namespace quern {
namespace {

using testing::HasSubstr;

std::string rewrite_error(const UOp& root, const Rules& rules, const RewriteOptions& options = {}) {
  try {
    graph_rewrite(root, rules, options);
  } catch (const RewriteError& error) {
    return error.what();
  }
  return "";
}

class BothOrders : public testing::TestWithParam<Order> {
 protected:
  UOp rewrite(const UOp& root, const Rules& rules) {
    return graph_rewrite(root, rules, {.order = GetParam()});
  }
};
INSTANTIATE_TEST_SUITE_P(Rewrite, BothOrders, testing::Values(Order::after_sources, Order::before_sources),
                         [](const auto& order) {
                           return order.param == Order::after_sources ? "after" : "before";
                         });

const Rules simplest = [] {
  const Pat x = var("x");
  return RuleList{{x + 0, x}, {x * 1, x}, {x * 0, 0}, {x - x, 0}};
};

TEST_P(BothOrders, ToAFixedPoint) {
  EXPECT_TRUE(rewrite((kN + 0) * 1, simplest) == kN);
  EXPECT_TRUE(rewrite(((kN * 1) * 0) + kM, simplest) == kM) << "a rule that applies only after another did";
  EXPECT_TRUE(rewrite(kN + kM, simplest) == kN + kM);
  EXPECT_TRUE(rewrite(kN, simplest) == kN);
  const UOp sink = UOp::sink(UOps{kN + 0, kN * kM, (kM + 0) * 1});
  EXPECT_TRUE(rewrite(sink, simplest) == UOp::sink(UOps{kN, kN * kM, kM}));
}

TEST_P(BothOrders, WhatReplacesANodeIsRewrittenToo) {
  const Pat x = var("x");
  const Rules rules{{x % 8, op(Op::ADD, {x, 0}) * 1}, {x + 0, x}, {x * 1, x}};
  EXPECT_TRUE(rewrite(kN % 8, rules) == kN);
  EXPECT_TRUE(rewrite((kN % 8) % 8, rules) == kN);
}

TEST_P(BothOrders, TagsStay) {
  const UOp tagged = ((kN + 0) * kM).rtag("keep");
  EXPECT_TRUE(rewrite(tagged, simplest) == (kN * kM).rtag("keep"));
}

struct Calls {
  std::map<UOp, int, bool (*)(const UOp&, const UOp&)> count{before};
  UOps order;
};
UOp note_call(Calls& calls, const UOp& u) {
  calls.count[u]++;
  calls.order.push_back(u);
  return {};
}
const Rules note_sums = [] { return RuleList{{op(Op::ADD).as("u"), note_call}}; };
const Rules note_all = [] { return RuleList{{op(ops::all).as("u"), note_call}}; };

TEST_P(BothOrders, ANodeIsTriedOnceHoweverOftenItIsUsed) {
  UOp u = kN;
  for (int i = 0; i < 40; i++) u = u + u;  // 2^40 paths
  Calls calls;
  EXPECT_TRUE(graph_rewrite(u, note_sums, calls, {.order = GetParam()}) == u);
  EXPECT_EQ(calls.count.size(), 40u);
  for (const auto& [node, times] : calls.count) EXPECT_EQ(times, 1);
}

TEST_P(BothOrders, ARewrittenNodeIsRewrittenOnce) {
  const UOp shared = (kN + 0) * kM;
  int calls = 0;
  const Rules rules{{op(Op::ADD, {var("x"), 0}), [](int& counted, const UOp& x) {
                       counted++;
                       return x;
                     }}};
  const UOp root = UOp::sink(UOps{shared, shared * 2, shared % 3, kN + 0});
  EXPECT_TRUE(graph_rewrite(root, rules, calls, {.order = GetParam()}) ==
              UOp::sink(UOps{kN * kM, (kN * kM) * 2, (kN * kM) % 3, kN}));
  EXPECT_EQ(calls, 1);
}

TEST_P(BothOrders, WhereNoRuleCanStartNothingIsVisited) {
  const UOp quiet = (kN * kM) * 3, root = UOp::sink(UOps{quiet, kN + kM});
  Calls calls;
  const UOp result = graph_rewrite(root, note_sums, calls, {.order = GetParam()});
  EXPECT_TRUE(result == root);
  EXPECT_EQ(calls.order.size(), 1u);
  const UOp changed = graph_rewrite(UOp::sink(UOps{quiet, kN + 0}), simplest, {.order = GetParam()});
  EXPECT_TRUE(same(changed.src(0), quiet));
  const Rules none = RuleList{};
  EXPECT_TRUE(graph_rewrite(root, none, {.order = GetParam()}) == root);
}

TEST_P(BothOrders, LongChains) {
  UOp chain = kN;
  for (int i = 0; i < kLongChain; i++)
    chain = UOp::make(i % 2 == 0 ? Op::MAX : Op::MIN, dtypes::index, {chain, kM});
  const Pat x = var("x"), y = var("y");
  // The tag says which were done: MAX and MIN change places once.
  const Rules rules{
      {op(Op::MAX, {x, y}).tagged(Arg()),
       [](const UOp& a, const UOp& b) { return UOp::make(Op::MIN, a.dtype(), {a, b}, {}, "done"); }},
      {op(Op::MIN, {x, y}).tagged(Arg()),
       [](const UOp& a, const UOp& b) { return UOp::make(Op::MAX, a.dtype(), {a, b}, {}, "done"); }}};
  UOp result = rewrite(chain, rules);
  int length = 0;
  for (const UOp* u = &result; !same(*u, kN); u = &u->src(0), length++) {
    ASSERT_EQ(u->op(), length % 2 == 0 ? Op::MAX : Op::MIN);
    ASSERT_EQ(u->tag(), Arg("done"));
  }
  EXPECT_EQ(length, kLongChain);
}

TEST_P(BothOrders, ManyRewritesThatEndAreFine) {
  // A graph of three nodes becomes one of 300,000, one rewrite for each; it is broad, not deep.
  const Rules rules{{op(Op::CONST).as("c").of(dtypes::int32), [](const UOp& c) {
                       const auto v = static_cast<int>(c.int_value());
                       if (v >= 150'000) return UOp();
                       return UOp::make(
                           Op::TUPLE, dtypes::void_,
                           {UOp::constant(dtypes::int32, 2 * v), UOp::constant(dtypes::int32, 2 * v + 1)});
                     }}};
  const UOp result = rewrite(UOp::sink(UOps{UOp::constant(dtypes::int32, 1)}), rules);
  size_t constants = 0;
  for (const UOp& u : result.toposort()) constants += u.is_const() ? 1 : 0;
  EXPECT_EQ(constants, 150'000u);
}

TEST(Rewrite, AfterSourcesGoesUp) {
  Calls calls;
  const UOp a = kN + 1, b = a * 2;
  graph_rewrite(b, note_all, calls);
  const UOps& order = calls.order;
  auto position = [&](const UOp& u) { return std::find(order.begin(), order.end(), u) - order.begin(); };
  EXPECT_EQ(order.size(), 5u);
  EXPECT_LT(position(kN), position(a));
  EXPECT_LT(position(a), position(b));
}

TEST(Rewrite, BeforeSourcesGoesDown) {
  Calls calls;
  const UOp a = kN + 1, b = a * 2;
  graph_rewrite(b, note_all, calls, {.order = Order::before_sources});
  ASSERT_EQ(calls.order.size(), 5u);
  EXPECT_TRUE(calls.order[0] == b && calls.order[1] == a && calls.order[2] == kN);
}

TEST(Rewrite, AfterSourcesSeesFinalSources) {
  const Pat x = var("x");
  const Rules rules{{x * 1, x}, {op(Op::DEFINE_VAR) % 2, 0}};
  EXPECT_TRUE(graph_rewrite((kN * 1) % 2, rules) == UOp::index(0));
}

TEST(Rewrite, BeforeSourcesSeesTheNodeAsItStood) {
  const Pat x = var("x");
  const Rules rules{{op(Op::MUL, {x, 1}) % 2, 7}, {x * 1, x}};
  EXPECT_TRUE(graph_rewrite((kN * 1) % 2, rules, {.order = Order::before_sources}) == UOp::index(7));
  EXPECT_TRUE(graph_rewrite((kN * 1) % 2, rules) == kN % 2) << "after its sources it is n % 2 by then";
}

TEST(Rewrite, AGateKeepsWhatLiesBelow) {
  const UOp inner = kN + 0, gate = UOp::make(Op::CONTIGUOUS, dtypes::index, {inner});
  const UOp root = UOp::sink(UOps{gate, (kM + 0) * 2, inner * 3});
  std::vector<Op> asked;
  const RewriteOptions options{.order = Order::before_sources, .gate = [&](const UOp& u) {
                                 asked.push_back(u.op());
                                 return u.op() != Op::CONTIGUOUS;
                               }};
  const UOp result = graph_rewrite(root, simplest, options);
  EXPECT_TRUE(result == UOp::sink(UOps{gate, kM * 2, kN * 3}))
      << "below the gate nothing, by another way everything";
  EXPECT_EQ(std::count(asked.begin(), asked.end(), Op::CONTIGUOUS), 1);
  EXPECT_EQ(std::count(asked.begin(), asked.end(), Op::ADD), 0)
      << "a node that a rule replaced is not asked about";
}

// ---- rules that do not come to rest

// Rules of no harm, on other ops, before and after the given ones.
RuleList among_others(const RuleList& guilty) {
  const Pat x = var("x");
  RuleList list{{x % 1, 0}, {x / 1, x}, {op(Op::XOR, {x, x}), 0}, {x | x, x}};
  list.insert(list.end(), guilty.begin(), guilty.end());
  for (int i = 0; i < 100; i++)
    list.push_back({op(Op::SINK, {x, x, x}), [](const UOp&) { return UOp(); }, "innocent"});
  list.push_back({x & x, x});
  return list;
}
const UOp busy = UOp::sink(UOps{(kN % 1) + (kM | kM), ((kN / 1) & (kN / 1)) % 3, kN ^ kN});

TEST_P(BothOrders, AToBToA) {
  const Pat x = var("x"), y = var("y");
  const Rules rules = among_others({{op(Op::MAX, {x, y}), min(x, y)}, {op(Op::MIN, {x, y}), max(x, y)}});
  const UOp root = UOp::sink(UOps{busy, max(kN, kM)});
  const std::string error = rewrite_error(root, rules, {.order = GetParam(), .name = "the pass"});
  EXPECT_THAT(error, HasSubstr("the pass: "));
  EXPECT_THAT(error, HasSubstr("max(x, y) -> min(x, y)  (test/ir/rewrite/rewrite_test.cpp:"));
  EXPECT_THAT(error, HasSubstr("min(x, y) -> max(x, y)  (test/ir/rewrite/rewrite_test.cpp:"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 2) << error;
}

TEST_P(BothOrders, SwappingForever) {
  const Pat x = var("x"), y = var("y");
  const std::string error = rewrite_error(kN + kM, among_others({{x + y, y + x}}), {.order = GetParam()});
  EXPECT_THAT(error, HasSubstr("x + y -> y + x"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
}

TEST_P(BothOrders, AConstantThatGrows) {
  const Pat c = int_const("c").of(dtypes::int32);
  const UOp root = UOp::sink(UOps{busy, UOp::constant(dtypes::int32, 1)});
  const std::string error = rewrite_error(root, among_others({{c, fold(c + 1)}}), {.order = GetParam()});
  EXPECT_THAT(error, HasSubstr("c -> c + 1"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
}

TEST_P(BothOrders, ANodeThatBecomesPartOfItself) {
  const Pat v = op(Op::DEFINE_VAR).as("v");
  const std::string error =
      rewrite_error(UOp::sink(UOps{busy, kN * 2}), among_others({{v, v + 1}}), {.order = GetParam()});
  EXPECT_THAT(error, HasSubstr("-> v + 1"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
}

TEST_P(BothOrders, AGraphThatGrowsDeeper) {
  // Each product becomes a sum around another product, so no node is ever met again.
  const Pat x = var("x"), c = int_const("c");
  const Rules rules = among_others({{op(Op::MUL, {x, c}), (x * fold(c + 1)) + c}, {op(Op::MAX, {x, x}), x}});
  const std::string error =
      rewrite_error(UOp::sink(UOps{busy, max(kN, kN), kN * 2}), rules, {.order = GetParam()});
  EXPECT_THAT(error, HasSubstr("x * c -> (x * (c + 1)) + c"));
  EXPECT_THAT(error, HasSubstr("keeps growing"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
}

TEST_P(BothOrders, AGraphThatGrowsByTwoRulesInTurn) {
  const Pat x = var("x"), c = int_const("c");
  const Rules rules =
      among_others({{op(Op::MUL, {x, c}), min(x, fold(c + 1)) + c}, {op(Op::MIN, {x, c}), max(x * c, c)}});
  const std::string error = rewrite_error(UOp::sink(UOps{busy, kN * 2}), rules, {.order = GetParam()});
  EXPECT_THAT(error, HasSubstr("x * c -> "));
  EXPECT_THAT(error, HasSubstr("min(x, c) -> "));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 2) << error;
}

TEST_P(BothOrders, AfterAnErrorTheNextRewriteIsSound) {
  const Pat v = op(Op::DEFINE_VAR).as("v");
  const Rules bad{{v, v + 1}};
  for (int i = 0; i < 3; i++) {
    EXPECT_NE(rewrite_error(kN * 2, bad, {.order = GetParam()}), "");
    EXPECT_TRUE(rewrite((kN + 0) * 1, simplest) == kN);
  }
}

TEST_P(BothOrders, AnErrorOfAFunctionPasses) {
  const Rules rules{{op(Op::DEFINE_VAR), []() -> UOp { throw ShapeError("no such shape"); }}};
  EXPECT_THROW(rewrite(kN * 2, rules), ShapeError);
}

UOp simplified(const UOp& x) {
  const UOp result = graph_rewrite(x, simplest, {.name = "inner"});
  return result == x ? UOp() : result;
}

TEST_P(BothOrders, ARewriteInsideARewrite) {
  const Rules rules{{op(Op::CONTIGUOUS, {var("x")}), simplified}};
  const UOp root = UOp::sink(UOps{UOp::make(Op::CONTIGUOUS, dtypes::index, {(kN + 0) * 1}), kM + 0});
  EXPECT_TRUE(rewrite(root, rules) == UOp::sink(UOps{kN, kM + 0}));
}

TEST(Rewrite, NothingIsLeftAlive) {
  const size_t before_it = live_nodes();
  {
    UOp u = kN;
    for (int i = 0; i < 100; i++) u = (u + 0) * (i + 2);
    const UOp result = graph_rewrite(u, simplest);
    EXPECT_FALSE(result == u);
  }
  EXPECT_EQ(live_nodes(), before_it);
}

// ---- Order::once

UOp rewrite_once(const UOp& root, const Rules& rules) {
  return graph_rewrite(root, rules, {.order = Order::once});
}

UOp doubled(const UOp& u, Sources now) {
  return UOp::make(Op::ADD, u.dtype(), {u.with_src(now), u.with_src(now)});
}

TEST(RewriteOnce, ANodeIsTriedOnceAndWhatReplacesItStays) {
  const Rules rules{{op(Op::MUL), doubled}};
  const UOp product = kN * kM;
  EXPECT_TRUE(rewrite_once(product, rules) == product + product) << "what is in the sum is not doubled again";
  const UOp outer = rewrite_once(product * 3, rules);
  EXPECT_TRUE(outer == (product + product) * 3 + (product + product) * 3) << "sources come first";
}

TEST(RewriteOnce, RulesSeeTheNodeAsItWasAndItsSourcesAsTheyAre) {
  struct Seen {
    UOps nodes, first;  // and the first source of each
  } seen;
  const Rules rules{
      {op(Op::DEFINE_VAR), [](Seen&, const UOp& u, Sources) { return same(u, kN) ? kM + 1 : UOp(); }},
      {op(Op::MAX, {op(Op::DEFINE_VAR), var("y")}), [](Seen& s, const UOp& u, Sources now) {
         s.nodes.push_back(u);
         s.first.push_back(now[0]);
         return UOp();
       }}};
  const UOp root = UOp::make(Op::MAX, dtypes::index, {kN, kN * 2});
  const UOp result = graph_rewrite(root, rules, seen, {.order = Order::once});
  ASSERT_EQ(seen.nodes.size(), 1u) << "the left side matches the node as it was";
  EXPECT_TRUE(seen.nodes[0] == root);
  EXPECT_TRUE(seen.first[0] == kM + 1);
  EXPECT_TRUE(result == UOp::make(Op::MAX, dtypes::index, {kM + 1, (kM + 1) * 2}))
      << "a node that no rule changes gets its new sources";
}

TEST(RewriteOnce, TheFirstRuleThatDoesNotRefuseWins) {
  const Rules rules{{op(ops::all), [](const UOp&, Sources) { return UOp(); }},
                    {op(Op::CONST), [](const UOp& u, Sources) { return UOp(u); }},
                    {op(Op::CONST), [](const UOp& u, Sources) { return u.const_like(7); }},
                    {op(Op::CONST), [](const UOp& u, Sources) { return u.const_like(8); }}};
  EXPECT_TRUE(rewrite_once(kN * 2, rules) == kN * 7);
}

TEST(RewriteOnce, ANodeMayStayAsItWasThoughItsSourcesChanged) {
  const Rules rules{{op(Op::DEFINE_VAR), [](const UOp&, Sources) { return kM; }},
                    {op(Op::ADD), [](const UOp& u, Sources) { return UOp(u); }}};
  EXPECT_TRUE(rewrite_once((kN + 1) * kN, rules) == (kN + 1) * kM);
}

TEST(RewriteOnce, PartsInWhichNoRuleCanStartStay) {
  int calls = 0;
  const Rules rules{{op(Op::MAX), [](int& n, const UOp&, Sources) { return n++, UOp(); }}};
  const UOp root = UOp::sink(UOps{kN * kM, UOp::make(Op::MAX, dtypes::index, {kN, kM})});
  EXPECT_TRUE(graph_rewrite(root, rules, calls, {.order = Order::once}) == root);
  EXPECT_EQ(calls, 1);
}

TEST(RewriteOnce, AGateKeepsSourcesAsTheyAre) {
  const Rules rules{{op(Op::DEFINE_VAR), [](const UOp&, Sources) { return kM; }},
                    {op(Op::MAX), [](const UOp& u, Sources now) { return u.with_src(now).rtag("tried"); }}};
  const UOp closed = UOp::make(Op::MAX, dtypes::index, {kN, kN});
  const auto gate = [](const UOp& u) { return u.op() != Op::MAX; };
  EXPECT_TRUE(graph_rewrite(closed * kN, rules, {.order = Order::once, .gate = gate}) ==
              closed.rtag("tried") * kM);
}

TEST(RewriteOnce, LongChains) {
  UOp chain = kN;
  for (int i = 0; i < kLongChain; i++) chain = UOp::make(Op::MAX, dtypes::index, {chain, kM});
  const Rules rules{
      {op(Op::MAX), [](const UOp& u, Sources now) { return u.replace({.op = Op::MIN, .src = now}); }}};
  const UOp result = rewrite_once(chain, rules);
  int length = 0;
  for (const UOp* u = &result; !same(*u, kN); u = &u->src(0), length++) ASSERT_EQ(u->op(), Op::MIN);
  EXPECT_EQ(length, kLongChain);
}

TEST(RewriteOnce, OtherRulesAreRefused) {
  EXPECT_THAT(rewrite_error(kN + 0, simplest, {.order = Order::once, .name = "here"}),
              HasSubstr("here: a rule is no function of a node and its new sources"));
}

TEST(RewriteOnce, ItsRulesInOtherOrders) {
  // The sources are those of the node that is tried: here they are final.
  const Rules rules{{op(Op::DEFINE_VAR), [](const UOp& u, Sources) { return same(u, kN) ? kM : UOp(); }},
                    {op(Op::ADD), [](const UOp&, Sources now) { return now[0]; }}};
  EXPECT_TRUE(graph_rewrite((kN + 1) * 2, rules) == kM * 2);
}

}  // namespace
}  // namespace quern
