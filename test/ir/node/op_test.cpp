#include "quern/ir/node/op.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(Op, EveryNameIsFoundAgain) {
  for (int i = 0; i < kOpCount; i++) {
    const auto op = static_cast<Op>(i);
    EXPECT_EQ(op_named(name(op)), op) << name(op);
  }
  EXPECT_EQ(op_named("NOT_AN_OP"), std::nullopt);
}

TEST(Op, EveryAxisKindIsFoundAgain) {
  for (int i = 0; i < kAxisKinds; i++) {
    const auto kind = static_cast<AxisKind>(i);
    EXPECT_EQ(axis_kind_named(name(kind)), kind) << name(kind);
  }
  EXPECT_EQ(axis_kind_named("SIDEWAYS"), std::nullopt);
}

}  // namespace
}  // namespace quern
