#include "test/ir/evaluate.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

const UOp a = UOp::variable("a", -10, 10), b = UOp::variable("b", 0, 100);

Const number(int64_t v) { return Const::of_int(v); }

TEST(Evaluate, Arithmetic) {
  EXPECT_EQ(evaluate((a + b) / 4, {{a, number(-3)}, {b, number(1)}}), number(-1));
  EXPECT_EQ(evaluate(a < b, {{a, number(2)}, {b, number(2)}}), Const::of_bool(false));
}

TEST(Evaluate, Floats) {
  const UOp x = value_leaf(dtypes::float32, 0);
  EXPECT_EQ(evaluate(x * 0, {{x, Const::of_float(-1)}}), Const::of_float(-0.0));
}

TEST(Evaluate, WhereUsesOnlyWhatItPicks) {
  const UOp gated = where(a < 0, UOp::invalid(), a);
  EXPECT_EQ(evaluate(gated + 1, {{a, number(1)}}), number(2));
  EXPECT_TRUE(evaluate(gated + 1, {{a, number(-1)}})->is_invalid());
  const UOp huge = UOp::index(int64_t{1} << 62) * b;
  EXPECT_EQ(evaluate(where(a < 0, huge, b), {{a, number(1)}, {b, number(4)}}), number(4));
  EXPECT_EQ(evaluate(where(a < 0, huge, b), {{a, number(-1)}, {b, number(4)}}), std::nullopt);
}

TEST(Evaluate, PointsThatDoNotExist) {
  const UOp r = UOp::range(b, 0);
  EXPECT_EQ(evaluate(r, {{b, number(3)}, {r, number(2)}}), number(2));
  EXPECT_EQ(evaluate(r, {{b, number(3)}, {r, number(3)}}), std::nullopt);
  EXPECT_EQ(evaluate(a, {{a, number(11)}}), std::nullopt);
}

}  // namespace
}  // namespace quern
