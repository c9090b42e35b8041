#include "test/ir/evaluate.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

class Evaluate : public testing::Test {
 protected:
  const UOp a = UOp::variable("a", -10, 10), b = UOp::variable("b", 0, 100);
};

Const integer(int64_t v) { return Const::of_int(v); }

TEST_F(Evaluate, Arithmetic) {
  EXPECT_EQ(evaluate((a + b) / 4, {{a, integer(-3)}, {b, integer(1)}}), integer(-1));
  EXPECT_EQ(evaluate(a < b, {{a, integer(2)}, {b, integer(2)}}), Const::of_bool(false));
}

TEST_F(Evaluate, Floats) {
  const UOp x = value_leaf(dtypes::float32, 0);
  EXPECT_EQ(evaluate(x * 0, {{x, Const::of_float(-1)}}), Const::of_float(-0.0));
}

TEST_F(Evaluate, WhereUsesOnlyWhatItPicks) {
  const UOp gated = where(a < 0, UOp::invalid(), a);
  EXPECT_EQ(evaluate(gated + 1, {{a, integer(1)}}), integer(2));
  EXPECT_TRUE(evaluate(gated + 1, {{a, integer(-1)}})->is_invalid());
  const UOp huge = UOp::index(int64_t{1} << 62) * b;
  EXPECT_EQ(evaluate(where(a < 0, huge, b), {{a, integer(1)}, {b, integer(4)}}), integer(4));
  EXPECT_EQ(evaluate(where(a < 0, huge, b), {{a, integer(-1)}, {b, integer(4)}}), std::nullopt);
}

TEST_F(Evaluate, PointsThatDoNotExist) {
  const UOp r = UOp::range(b, 0);
  EXPECT_EQ(evaluate(r, {{b, integer(3)}, {r, integer(2)}}), integer(2));
  EXPECT_EQ(evaluate(r, {{b, integer(3)}, {r, integer(3)}}), std::nullopt);
  EXPECT_EQ(evaluate(a, {{a, integer(11)}}), std::nullopt);
}

}  // namespace
}  // namespace quern
