// Nodes as they are written in C++: makers of variables, ranges, constants and casts, and operators.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/ir/node/uop.h"
#include "test/error_of.h"
#include "test/ir/variables.h"

namespace quern {
namespace {

using testing::HasSubstr;

// ---- makers

TEST(Variable, IsCheckedWhenMade) {
  EXPECT_EQ(error_of([] { variable("n", 3, 2); }), "variable n: its least value 3 is above its greatest 2");
  EXPECT_THAT(error_of<DTypeError>([] { UOp::variable("n", 0, 1, dtypes::float32); }), HasSubstr("float32"));
  EXPECT_THAT(error_of<DTypeError>([] { UOp::variable("n", 0, 1, dtypes::int32.vec(2)); }),
              HasSubstr("int32x2"));
  EXPECT_THAT(error_of<DTypeError>([] { UOp::variable("n", 0, 128, dtypes::int8); }), HasSubstr("128"));
  EXPECT_THAT(error_of<DTypeError>([] { UOp::variable("n", -1, 1, dtypes::uint8); }), HasSubstr("-1"));
}

TEST(Variable, IsBoundAndUnbound) {
  const UOp n = variable("n", 1, 8), bound = n.bind(5);
  EXPECT_EQ(bound.op(), Op::BIND);
  EXPECT_EQ(bound.unbind(), std::pair(n, int64_t{5}));
  EXPECT_EQ(bound.vmin(), 1);  // the variable's: what is computed serves for other values, too
  EXPECT_EQ(bound.vmax(), 8);
  EXPECT_EQ(error_of([&] { (void)n.bind(9); }), "bind: 9 is outside the bounds of variable n, 1 to 8");
  EXPECT_THAT(error_of([&] { (void)n.bind(0); }), HasSubstr("0 is outside"));
  EXPECT_EQ(error_of([&] { (void)(n + 1).bind(3); }), "bind: only a variable can be bound, not ADD");
  EXPECT_EQ(error_of([&] { (void)n.unbind(); }), "unbind: not a variable with a value");
  EXPECT_EQ(error_of([&] { (void)UOp::make(Op::BIND, n.dtype(), {n}).unbind(); }),
            "unbind: not a variable with a value");
}

TEST(Range, IsCheckedWhenMade) {
  EXPECT_THAT(error_of<ShapeError>([] { UOp::range(0, 3); }), HasSubstr("range 3: a loop of 0 steps"));
  EXPECT_THAT(error_of<ShapeError>([] { UOp::range(-2, 3); }), HasSubstr("-2 steps"));
  EXPECT_THAT(error_of<DTypeError>([] { UOp::range(UOp::constant(dtypes::float32, 1.0), 0); }),
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
      const std::string text = error_of<DTypeError>([&] { UOp::constant(d, value); });
      EXPECT_THAT(text, HasSubstr(to_string(value)));
      EXPECT_THAT(text, HasSubstr(d.name()));
    }
    EXPECT_NE(error_of<DTypeError>([&] { UOp::constant(d, 0.5); }), "") << d.name();
    EXPECT_NE(error_of<DTypeError>([&] { UOp::constant(d, std::nan("")); }), "") << d.name();
  }
  EXPECT_NE(error_of<DTypeError>([] { UOp::constant(dtypes::void_, 0); }), "");
  EXPECT_NE(error_of<DTypeError>([] { UOp::constant(dtypes::int32.ptr(), 0); }), "");
}

TEST(Constant, Questions) {
  EXPECT_TRUE(UOp::index(3).equals(3));
  EXPECT_FALSE(UOp::index(3).equals(4));
  EXPECT_TRUE(UOp::boolean(true).equals(1));
  EXPECT_FALSE(UOp::constant(dtypes::float32, 3.0).equals(3)) << "of integers only";
  EXPECT_TRUE(UOp::invalid().is_invalid());
  EXPECT_FALSE(UOp::invalid().equals(0));
  EXPECT_FALSE(UOp::invalid().is_int_const());
  EXPECT_FALSE(variable("n").is_invalid());
  EXPECT_EQ(UOp::constant(dtypes::uint64, int_max(dtypes::uint64)).int_value(), int_max(dtypes::uint64));
}

TEST(Cast, KeepsLanesAndIsNothingToTheSameDType) {
  const UOp x = UOp::constant(dtypes::int32, 3);
  EXPECT_TRUE(same(x.cast(dtypes::int32), x));
  EXPECT_EQ(x.cast(dtypes::float32).dtype(), dtypes::float32);
  EXPECT_THAT(error_of<DTypeError>([&] { (void)x.cast(dtypes::int32.vec(2)); }),
              HasSubstr("cast of int32 to int32x2"));
  EXPECT_NE(error_of<DTypeError>([&] { (void)x.cast(dtypes::void_); }), "");
  EXPECT_NE(error_of<DTypeError>([&] { (void)x.cast(dtypes::int32.ptr()); }), "");
  EXPECT_NE(error_of<DTypeError>([&] { (void)UOp::sink({}).cast(dtypes::int32); }), "");
}

TEST(Cast, OfAPointerMayGroupItsElements) {
  const UOp p = UOp::make(Op::PARAM, dtypes::float32.ptr(16), {}, 0);
  EXPECT_EQ(p.cast(dtypes::float32.vec(4).ptr(4)).dtype(), dtypes::float32.vec(4).ptr(4));
  EXPECT_THAT(error_of<DTypeError>([&] { (void)p.cast(dtypes::float32.ptr(16, AddrSpace::LOCAL)); }),
              HasSubstr("space"));
}

TEST(Bitcast, KeepsLanesAndBits) {
  const UOp x = UOp::constant(dtypes::int32, 3);
  EXPECT_TRUE(same(x.bitcast(dtypes::int32), x));
  EXPECT_EQ(x.bitcast(dtypes::float32).op(), Op::BITCAST);
  EXPECT_THAT(error_of<DTypeError>([&] { (void)x.bitcast(dtypes::int16); }),
              HasSubstr("bitcast of int32 to int16"));
  EXPECT_NE(error_of<DTypeError>([&] { (void)x.bitcast(dtypes::float32.vec(2)); }), "");
}

// ---- operators

TEST(Operators, MakeTheOpsTheySay) {
  const UOp a = variable("a"), b = variable("b");
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
  EXPECT_EQ(error_of<DTypeError>([&] { i + j; }),
            "ADD(int32, int64): the operands must have one dtype; cast one of them");
  EXPECT_EQ(error_of<DTypeError>([&] { f & f; }), "AND(float32, float32): needs integers or bools");
  EXPECT_EQ(error_of<DTypeError>([&] { f << f; }), "SHL(float32, float32): needs integers");
  EXPECT_EQ(error_of<DTypeError>([&] { f % f; }), "FLOORMOD(float32, float32): needs integers");
  EXPECT_EQ(error_of<DTypeError>([&] { t / t; }), "FLOORDIV(bool, bool): needs integers");
  EXPECT_EQ(error_of<DTypeError>([&] { p + p; }),
            "ADD(int32*[4], int32*[4]): there is no arithmetic on this type");
  EXPECT_NE(error_of<DTypeError>([&] { none + none; }), "");
  EXPECT_NE(error_of<DTypeError>([&] { UOp::alu(Op::SQRT, {i}); }), "");
  EXPECT_NE(error_of<DTypeError>([&] { UOp::alu(Op::THREEFRY, {i, i}); }), "");
  EXPECT_THAT(error_of<DTypeError>([&] { where(i, i, i); }), HasSubstr("the condition must be a bool"));
  EXPECT_THAT(error_of<DTypeError>([&] { where(t, i, f); }), HasSubstr("one dtype"));
  EXPECT_THAT(error_of([&] { UOp::alu(Op::ADD, {i}); }), HasSubstr("not an elementwise op with 1 operands"));
  EXPECT_THAT(error_of([&] { UOp::alu(Op::SINK, {i}); }), HasSubstr("SINK"));
  EXPECT_NE(error_of<DTypeError>([&] { -t; }), "");
  EXPECT_NE(error_of<DTypeError>([&] { -p; }), "") << "a user's mistake, not ours";
  EXPECT_NE(error_of<DTypeError>([&] { -none; }), "");
  EXPECT_NE(error_of<DTypeError>([&] { ~f; }), "");
  EXPECT_NE(error_of<DTypeError>([&] { ~p; }), "");
  for (const DType d : dtypes::all) {
    if (!d.is_int()) continue;
    const UOp x = UOp::constant(d, 3);
    EXPECT_THAT(error_of([&] { x / 0; }), HasSubstr("by the constant 0")) << d.name();
    EXPECT_THAT(error_of([&] { x % 0; }), HasSubstr("by the constant 0")) << d.name();
    EXPECT_THAT(error_of([&] { truncdiv(x, 0); }), HasSubstr("by the constant 0")) << d.name();
    EXPECT_THAT(error_of([&] { truncmod(x, 0); }), HasSubstr("by the constant 0")) << d.name();
    EXPECT_NE(error_of<DTypeError>([&] { x + (int_max(d) > int_max(dtypes::int64) ? -1.0 : 1e30); }), "")
        << d.name();
  }
  EXPECT_EQ((f / 0.0).op(), Op::FDIV) << "floats may be divided by 0";
}

}  // namespace
}  // namespace quern
