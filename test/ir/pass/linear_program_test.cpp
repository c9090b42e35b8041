// What rare_parts() finds: nodes that only the second source of a WHERE needs that is seldom taken.
#include "quern/ir/pass/linear_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quern/ir/text/parse.h"

namespace quern {
namespace {

UOp number() { return parse("LOAD(INDEX(PARAM(; 0):float32*[1], 0))"); }

// Squared so often: each square is a node.
UOp chain(const UOp& from, int steps, UOps& list) {
  UOp u = from;
  for (int i = 0; i < steps; i++) list.push_back(u = u * u);
  return u;
}
UOp listed(const UOp& u, UOps& list) {
  list.push_back(u);
  return u;
}
UOp rarely(const UOp& condition, const UOp& value, const UOp& otherwise) {
  return where(condition, value, otherwise).with_hint(&Hints::rare, true);
}
bool are_same(const UOps& a, const UOps& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const UOp& p, const UOp& q) { return same(p, q); });
}

TEST(RareParts, AreWhatNothingElseNeeds) {
  const UOp x = number();
  UOps list{x};
  const UOp condition = listed(x < x * 2.0, list), shared = listed(x + 5.0, list);
  UOps part;
  const UOp seldom = chain(shared, 12, part);
  list.insert(list.end(), part.begin(), part.end());
  const UOp result = listed(rarely(condition, seldom, shared), list);
  const auto parts = rare_parts({.name = "", .list = list});
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_TRUE(are_same(parts.at(result), part));
  // Used elsewhere too, the end of the chain is computed in any case, and so is what it needs.
  listed(seldom + 1.0, list);
  EXPECT_TRUE(rare_parts({.name = "", .list = list}).empty());
}

TEST(RareParts, OfFewNodesAreLeftOut) {
  const UOp x = number();
  UOps list{x};
  const UOp condition = listed(x < x * 2.0, list), seldom = chain(x, 3, list);
  listed(rarely(condition, seldom, x), list);
  EXPECT_TRUE(rare_parts({.name = "", .list = list}).empty());
  // A call is worth a branch.
  const UOp sine = listed(UOp::alu(Op::SIN, {x}), list), other = listed(rarely(condition, sine, x), list);
  const auto parts = rare_parts({.name = "", .list = list});
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_TRUE(are_same(parts.at(other), {sine}));
}

TEST(RareParts, ShareWhatSeveralNeed) {
  const UOp x = number();
  UOps list{x};
  const UOp condition = listed(x < x * 2.0, list);
  UOps shared, first, second;
  const UOp start = chain(x, 10, shared), a = chain(start + 1.0, 4, first), b = chain(start + 2.0, 4, second);
  list.insert(list.end(), shared.begin(), shared.end());
  const UOp plus_one = listed(start + 1.0, list), plus_two = listed(start + 2.0, list);
  list.insert(list.end(), first.begin(), first.end());
  list.insert(list.end(), second.begin(), second.end());
  const UOp one = listed(rarely(condition, a, x), list), two = listed(rarely(condition, b, x), list);
  const auto parts = rare_parts({.name = "", .list = list});
  ASSERT_EQ(parts.size(), 2U);
  UOps of_one = shared, of_two = shared;
  of_one.push_back(plus_one), of_two.push_back(plus_two);
  of_one.insert(of_one.end(), first.begin(), first.end());
  of_two.insert(of_two.end(), second.begin(), second.end());
  EXPECT_TRUE(are_same(parts.at(one), of_one));
  EXPECT_TRUE(are_same(parts.at(two), of_two));
}

TEST(RareParts, StandInEachOther) {
  const UOp x = number();
  UOps list{x};
  const UOp condition = listed(x < x * 2.0, list);
  UOps shared, inner;
  const UOp start = chain(x, 10, shared), deep = chain(start + 1.0, 10, inner);
  list.insert(list.end(), shared.begin(), shared.end());
  const UOp plus_one = listed(start + 1.0, list);
  list.insert(list.end(), inner.begin(), inner.end());
  const UOp within = listed(rarely(condition, deep, start), list), after = listed(within * start, list);
  const UOp outer = listed(rarely(condition, after, x), list);
  const auto parts = rare_parts({.name = "", .list = list});
  ASSERT_EQ(parts.size(), 2U);
  UOps of_inner{plus_one};
  of_inner.insert(of_inner.end(), inner.begin(), inner.end());
  UOps of_outer = shared;
  of_outer.push_back(within), of_outer.push_back(after);
  EXPECT_TRUE(are_same(parts.at(within), of_inner));
  EXPECT_TRUE(are_same(parts.at(outer), of_outer));
}

}  // namespace
}  // namespace quern
