// What a REDUCE is made of, by name.
#include "quern/ir/node/reduce.h"

#include <gtest/gtest.h>

#include "quern/ir/node/eval.h"
#include "test/ir/variables.h"

namespace quern {
namespace {

const UOp kOuter = UOp::range(4, 0, AxisKind::REDUCE), kInner = UOp::range(8, 1, AxisKind::REDUCE);

UOps listed(Sources sources) { return {sources.begin(), sources.end()}; }

TEST(Reduction, OfOneValue) {
  const UOp x = (kOuter * 8 + kInner).cast(dtypes::float32);
  const UOp u =
      UOp::make(Op::REDUCE, dtypes::float32, {x, kOuter, kInner}, ReduceArg{.op = Op::MAX, .axes = {}});
  const Reduction r(u);
  EXPECT_FALSE(r.has_several_values());
  EXPECT_EQ(r.op, Op::MAX);
  EXPECT_TRUE(r.value() == x);
  EXPECT_EQ(listed(r.values), UOps{x});
  EXPECT_EQ(listed(r.ranges), (UOps{kOuter, kInner}));
  EXPECT_TRUE(r.initial.empty());
  EXPECT_EQ(r.identity(), UOps{UOp::constant(dtypes::float32, identity_element(Op::MAX, dtypes::float32))});
  EXPECT_TRUE(closes(u, kInner));
  EXPECT_FALSE(closes(u, UOp::range(8, 2, AxisKind::REDUCE)));
}

TEST(Reduction, OfSeveralValues) {
  // One of the values is a range.
  const UOp first = UOp::make(Op::STATE, dtypes::index, {}, 0);
  const UOp second = UOp::make(Op::STATE, dtypes::index, {}, 1);
  const UOp body = UOp::make(Op::TUPLE, dtypes::void_, {first, second});
  const UOp x = kInner * 2, zero = UOp::index(0), one = UOp::index(1);
  const UOp u = UOp::make(Op::REDUCE, dtypes::void_, {x, kInner, zero, one, body, kOuter},
                          ReduceArg{.op = Op::NOOP, .axes = {}, .states = 2});
  const Reduction r(u);
  EXPECT_TRUE(r.has_several_values());
  EXPECT_EQ(listed(r.values), (UOps{x, kInner}));
  EXPECT_EQ(r.identity(), (UOps{zero, one}));
  EXPECT_TRUE(same(*r.combine, body));
  EXPECT_EQ(listed(r.ranges), UOps{kOuter});
  EXPECT_FALSE(closes(u, kInner)) << "it is a value";
  EXPECT_TRUE(closes(u, kOuter));
}

TEST(Reduction, WhatAnEndCloses) {
  const UOp effect = UOp::make(Op::NOOP, dtypes::void_);
  const UOp end = UOp::make(Op::END, dtypes::void_, {effect, kOuter});
  EXPECT_EQ(listed(closed_ranges(end)), UOps{kOuter});
}

}  // namespace
}  // namespace quern
