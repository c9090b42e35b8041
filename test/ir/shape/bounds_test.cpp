// Bounds hold every value that a node can have, by evaluating it; and are tight where that is promised.
#include <array>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "quern/ir/node/eval.h"
#include "quern/ir/node/uop.h"

namespace quern {
namespace {

struct Interval {
  int min, max;
};

UOp variable_in(const char* name, Interval i, DType dtype) {
  return UOp::variable(name, i.min, i.max, dtype);
}

// Every interval of small numbers, and those at the limits of bytes (for index, which does not wrap, only the
// former).
std::vector<Interval> intervals(DType dtype) {
  std::vector<Interval> all;
  const int least = dtype.is_unsigned() ? 0 : -4, most = dtype.is_unsigned() ? 8 : 4;
  for (int min = least; min <= most; min++)
    for (int max = min; max <= most; max++) all.push_back({min, max});
  if (dtype.kind() == Scalar::Int8)
    all.insert(all.end(), {{-128, -126}, {-128, -128}, {125, 127}, {-2, 127}, {-128, 127}});
  if (dtype.kind() == Scalar::UInt8) all.insert(all.end(), {{253, 255}, {255, 255}, {127, 129}, {0, 255}});
  return all;
}

constexpr bool promised_tight(Op op) {
  return op == Op::ADD || op == Op::SUB || op == Op::MUL || op == Op::MAX || op == Op::MIN;
}

// What the op gives without wrapping, for the ops whose bounds are tight.
wide exact(Op op, wide x, wide y) {
  switch (op) {
    case Op::ADD: return x + y;
    case Op::SUB: return x - y;
    case Op::MUL: return x * y;
    case Op::MAX: return x < y ? y : x;
    default: return x < y ? x : y;
  }
}

void check_binary(Op op, DType dtype, Interval i, Interval j) {
  const UOp u = UOp::alu(op, {variable_in("a", i, dtype), variable_in("b", j, dtype)});
  const Bounds bounds = u.bounds();
  wide least = int_max(dtypes::int64), most = int_min(dtypes::int64);
  bool wraps = false;
  for (int x = i.min; x <= i.max; x++)
    for (int y = j.min; y <= j.max; y++) {
      const std::array args = {make_const(dtype, x), make_const(dtype, y)};
      const wide value = eval(op, u.dtype(), dtype, args).integer(u.dtype());
      ASSERT_TRUE(bounds.min <= value && value <= bounds.max) << fmt::format(
          "{} of {}: {} and {} give {}, outside {} to {} from [{}, {}] and [{}, {}]", name(op), dtype.name(),
          x, y, to_string(value), to_string(bounds.min), to_string(bounds.max), i.min, i.max, j.min, j.max);
      least = std::min(least, value), most = std::max(most, value);
      wraps |= promised_tight(op) && exact(op, x, y) != value;
    }
  const bool tight = bounds == Bounds{least, most};
  EXPECT_TRUE(tight || wraps || !promised_tight(op)) << fmt::format(
      "{} of {}: [{}, {}] and [{}, {}] give {} to {}, not {} to {}", name(op), dtype.name(), i.min, i.max,
      j.min, j.max, to_string(least), to_string(most), to_string(bounds.min), to_string(bounds.max));
}

TEST(BoundsProperty, HoldEveryValueOfBinaryOps) {
  for (const DType dtype : {dtypes::int8, dtypes::uint8, dtypes::index}) {
    const std::vector<Interval> all = intervals(dtype);
    for (int op = 0; op < kOpCount; op++) {
      const Op binary = static_cast<Op>(op);
      if (!is_binary(binary) || binary == Op::FDIV || binary == Op::THREEFRY) continue;
      for (const Interval i : all)
        for (const Interval j : all) {
          // Dividing by the constant 0 is refused when it is written.
          if (binary >= Op::FLOORDIV && binary <= Op::TRUNCMOD && j.min == 0 && j.max == 0) continue;
          check_binary(binary, dtype, i, j);
          if (HasFatalFailure()) return;
        }
    }
  }
}

TEST(BoundsProperty, HoldEveryValueOfUnaryOpsAndCasts) {
  constexpr std::array to = {dtypes::bool_, dtypes::int8,   dtypes::uint8,
                             dtypes::int16, dtypes::uint64, dtypes::index};
  for (const DType dtype : {dtypes::int8, dtypes::uint8, dtypes::index})
    for (const Interval i : intervals(dtype)) {
      const UOp a = variable_in("a", i, dtype);
      std::vector<UOp> all = {UOp::alu(Op::NEG, {a})};
      for (const DType d : to)
        if (d != dtype) all.push_back(a.cast(d));
      for (const UOp& u : all)
        for (int x = i.min; x <= i.max; x++) {
          const std::array args = {make_const(dtype, x)};
          const wide value = eval(u.op(), u.dtype(), dtype, args).integer(u.dtype());
          ASSERT_TRUE(u.vmin() <= value && value <= u.vmax())
              << name(u.op()) << " of " << x << " as " << u.dtype().name() << " gives " << to_string(value);
        }
    }
}

TEST(BoundsProperty, HoldEveryValueOfBoolsAndSelections) {
  const UOp t = UOp::boolean(true), f = UOp::boolean(false), p = UOp::variable("p", 0, 1) < 1;
  for (int op = 0; op < kOpCount; op++) {
    const Op binary = static_cast<Op>(op);
    const bool of_bools = is_comparison(binary) || (is_commutative(binary)) || binary == Op::SUB;
    if (!is_binary(binary) || !of_bools) continue;
    for (const UOp& x : {t, f, p})
      for (const UOp& y : {t, f, p})
        for (wide a = x.vmin(); a <= x.vmax(); a++)
          for (wide b = y.vmin(); b <= y.vmax(); b++) {
            const UOp u = UOp::alu(binary, {x, y});
            const std::array args = {Const::of_bool(a != 0), Const::of_bool(b != 0)};
            // One value cannot be two: x and y are the same where they are the same node.
            if (same(x, y) && a != b) continue;
            const wide value = eval(binary, u.dtype(), dtypes::bool_, args).integer(dtypes::bool_);
            EXPECT_TRUE(u.vmin() <= value && value <= u.vmax()) << name(binary);
          }
  }
  const UOp a = UOp::variable("a", -2, 3), b = UOp::variable("b", 5, 9);
  EXPECT_TRUE(where(p, a, b).bounds() == (Bounds{-2, 9}));
  EXPECT_TRUE(where(t, a, b).bounds() == (Bounds{-2, 3}));
  EXPECT_TRUE(where(f, a, b).bounds() == (Bounds{5, 9}));
  EXPECT_TRUE(where(p, b, UOp::invalid()).bounds() == (Bounds{5, 9})) << "what is invalid is never used";
}

TEST(Bounds, OfLeaves) {
  EXPECT_TRUE(UOp::index(-7).bounds() == (Bounds{-7, -7}));
  EXPECT_TRUE(UOp::range(5, 0).bounds() == (Bounds{0, 4}));
  EXPECT_TRUE(UOp::range(UOp::variable("n", 0, 8), 0).bounds() == (Bounds{0, 7}));
  EXPECT_TRUE(UOp::make(Op::SPECIAL, dtypes::int32, {UOp::constant(dtypes::int32, 32)}, "l").bounds() ==
              (Bounds{0, 31}));
  EXPECT_TRUE(UOp::variable("n", -3, 8).bounds() == (Bounds{-3, 8}));
  EXPECT_TRUE(UOp::variable("n", -3, 8).bind(2).bounds() == (Bounds{-3, 8}));
  EXPECT_TRUE(UOp::make(Op::BIND, dtypes::index, {UOp::variable("n", -3, 8)}).bounds() == (Bounds{-3, 8}));
  const UOp p = UOp::make(Op::PARAM, dtypes::uint8.ptr(9), {}, 0);
  EXPECT_TRUE(UOp::make(Op::INDEX, dtypes::uint8, {p, UOp::index(1)}).bounds() == (Bounds{0, 255}));
  EXPECT_THROW((void)UOp::constant(dtypes::float32, 1.0).bounds(), InternalError);
}

TEST(Bounds, OfALoopThatMayHaveNoStep) {
  const UOp perhaps = UOp::range(UOp::variable("n", 0, 1), 0), once = UOp::range(UOp::variable("n", 1, 1), 0);
  EXPECT_EQ(perhaps.simplify(), perhaps);
  EXPECT_EQ(once.simplify(), UOp::index(0));
}

TEST(Bounds, OfVectors) {
  const UOp a = UOp::variable("a", 1, 2), b = UOp::variable("b", 8, 9);
  const UOp v = UOp::make(Op::VECTORIZE, dtypes::index.vec(2), {a, b});
  EXPECT_TRUE(v.bounds() == (Bounds{1, 9}));
  EXPECT_TRUE((v * 2).bounds() == (Bounds{2, 18}));
  EXPECT_TRUE(UOp::make(Op::GEP, dtypes::index, {v}, Ints{1}).bounds() == (Bounds{1, 9}));
}

TEST(Bounds, AtTheLimitsOf64Bits) {
  const wide u64 = int_max(dtypes::uint64), i64 = int_max(dtypes::int64);
  const UOp u = UOp::make(Op::PARAM, dtypes::uint64, {}, 0), i = UOp::make(Op::PARAM, dtypes::int64, {}, 1);
  EXPECT_TRUE(u.bounds() == (Bounds{0, u64}));
  EXPECT_TRUE((u * u).bounds() == (Bounds{0, u64}));
  EXPECT_TRUE((u / 2).bounds() == (Bounds{0, u64 / 2}));
  EXPECT_TRUE((u >> UOp::constant(dtypes::uint64, 63)).bounds() == (Bounds{0, 1}));
  EXPECT_TRUE((u << UOp::constant(dtypes::uint64, 63)).bounds() == (Bounds{0, u64}));
  EXPECT_TRUE(UOp::constant(dtypes::uint64, u64).bounds() == (Bounds{u64, u64}));
  EXPECT_TRUE((i * i).bounds() == (Bounds{-i64 - 1, i64}));
  EXPECT_TRUE(truncdiv(i, -1).bounds() == (Bounds{-i64 - 1, i64}));
}

TEST(Bounds, OfIndexStopAtTheLimits) {
  const wide most = int_max(dtypes::index);
  const UOp large = UOp::index(int64_t{1} << 62);
  EXPECT_TRUE((large * 4).bounds() == (Bounds{most, most})) << "beyond both limits";
  EXPECT_TRUE((large * -4).bounds() == (Bounds{-most - 1, -most - 1}));
  const UOp n = UOp::variable("n", -(int64_t{1} << 62), int64_t{1} << 62);
  EXPECT_TRUE((n * n).bounds() == (Bounds{0, most})) << "a square";
  EXPECT_TRUE((n * 4).bounds() == (Bounds{-most - 1, most}));
}

TEST(Bounds, ComparisonsOfOneNode) {
  const UOp a = UOp::variable("a", 0, 9), f = UOp::make(Op::PARAM, dtypes::float32, {}, 0);
  EXPECT_TRUE(eq(a, a).bounds() == (Bounds{1, 1}));
  EXPECT_TRUE((a < a).bounds() == (Bounds{0, 0}));
  EXPECT_TRUE(eq(f, f).bounds() == (Bounds{0, 1})) << "NaN differs from itself";
  EXPECT_TRUE((f < f).bounds() == (Bounds{0, 0}));
  EXPECT_TRUE((f <= f).bounds() == (Bounds{0, 1}));
}

}  // namespace
}  // namespace quern
