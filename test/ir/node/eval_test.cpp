#include "quern/ir/node/eval.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "quern/base/error.h"
#include "test/ir/scalars.h"

namespace quern {
namespace {

Const eval_in(Op op, DType dtype, std::initializer_list<Const> args) {
  const DType out = is_comparison(op) ? dtypes::bool_ : dtype;
  return eval(op, out, dtype, std::span(args.begin(), args.size()));
}

wide integer(Op op, DType dtype, wide a, wide b) {
  return eval_in(op, dtype, {make_const(dtype, a), make_const(dtype, b)}).integer(dtype);
}

double real(Op op, DType dtype, double a) { return eval_in(op, dtype, {make_const(dtype, a)}).as_float(); }

double real(Op op, DType dtype, double a, double b) {
  return eval_in(op, dtype, {make_const(dtype, a), make_const(dtype, b)}).as_float();
}

double real(Op op, DType dtype, double a, double b, double c) {
  return eval_in(op, dtype, {make_const(dtype, a), make_const(dtype, b), make_const(dtype, c)}).as_float();
}

// ---- Integers

wide wrapped(DType dtype, wide value) { return wrap(dtype, value).integer(dtype); }

// The definitions, for operands so small that a double holds every quotient well enough to round it.
std::optional<wide> define(Op op, DType dtype, int a, int b) {
  const int bits = dtype.bits();
  const auto floor_quotient = [&] { return static_cast<int>(std::floor(static_cast<double>(a) / b)); };
  const auto trunc_quotient = [&] { return static_cast<int>(std::trunc(static_cast<double>(a) / b)); };
  switch (op) {
    case Op::ADD: return wrapped(dtype, a + b);
    case Op::SUB: return wrapped(dtype, a - b);
    case Op::MUL: return wrapped(dtype, a * b);
    case Op::MAX: return a > b ? a : b;
    case Op::MIN: return a < b ? a : b;
    case Op::AND: return wrapped(dtype, a & b);
    case Op::OR: return wrapped(dtype, a | b);
    case Op::XOR: return wrapped(dtype, a ^ b);
    case Op::CMPEQ: return a == b;
    case Op::CMPNE: return a != b;
    case Op::CMPLT: return a < b;
    case Op::CMPLE: return a <= b;
    case Op::FLOORDIV: return b == 0 ? 0 : wrapped(dtype, floor_quotient());
    case Op::FLOORMOD: return b == 0 ? 0 : a - floor_quotient() * b;
    case Op::TRUNCDIV: return b == 0 ? 0 : wrapped(dtype, trunc_quotient());
    case Op::TRUNCMOD: return b == 0 ? 0 : a - trunc_quotient() * b;
    case Op::SHL: return b < 0 || b >= bits ? 0 : wrapped(dtype, wide{a} * (1 << b));
    case Op::SHR: return static_cast<wide>(std::floor(std::ldexp(a, b < 0 || b >= bits ? -bits : -b)));
    case Op::POW: {
      if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
      wide power = 1;
      for (int i = 0; i < b; i++) power = wrapped(dtype, power * a);
      return power;
    }
    default: return std::nullopt;
  }
}

TEST(IntegerOps, OnEveryPairOfBytesAreAsDefined) {
  for (const DType dtype : {dtypes::int8, dtypes::uint8})
    for (int i = 0; i < kOpCount; i++) {
      const Op op = static_cast<Op>(i);
      if (!is_binary(op) || op == Op::FDIV || op == Op::THREEFRY) continue;
      const int least = static_cast<int>(int_min(dtype)), greatest = static_cast<int>(int_max(dtype));
      for (int a = least; a <= greatest; a++)
        for (int b = least; b <= greatest; b++) {
          const std::optional<wide> expected = define(op, dtype, a, b);
          ASSERT_TRUE(expected) << name(op) << " has no definition";
          ASSERT_EQ(static_cast<int>(integer(op, dtype, a, b)), static_cast<int>(*expected))
              << name(op) << " of " << dtype.name() << " " << a << ", " << b;
        }
    }
}

std::vector<wide> edges(DType dtype) {
  std::vector<wide> values;
  for (const wide value : {int_min(dtype), int_min(dtype) + 1, int_min(dtype) / 2, wide{-7}, wide{-2},
                           wide{-1}, wide{0}, wide{1}, wide{2}, wide{7}, int_max(dtype) / 2,
                           int_max(dtype) / 2 + 1, int_max(dtype) - 1, int_max(dtype)})
    if (fits(dtype, value)) values.push_back(value);
  std::mt19937_64 random(1);
  for (int i = 0; i < 40; i++)
    values.push_back(wrapped(dtype, static_cast<int64_t>(random()) >> random() % 64));
  return values;
}

TEST(IntegerOps, OfEveryWidthWrap) {
  for (const DType dtype : kIntegers)
    for (const wide a : edges(dtype)) {
      EXPECT_EQ(eval_in(Op::NEG, dtype, {make_const(dtype, a)}), wrap(dtype, -a)) << dtype.name();
      for (const wide b : edges(dtype)) {
        EXPECT_EQ(integer(Op::ADD, dtype, a, b), wrapped(dtype, a + b)) << dtype.name();
        EXPECT_EQ(integer(Op::SUB, dtype, a, b), wrapped(dtype, a - b)) << dtype.name();
        // The upper half of one factor only adds multiples of 2^64, and left out keeps the product in 127
        // bits.
        const wide low = wrapped(dtypes::int64, b);
        EXPECT_EQ(integer(Op::MUL, dtype, a, b), wrapped(dtype, a * low)) << dtype.name();
        EXPECT_EQ(
            eval_in(Op::MULACC, dtype, {make_const(dtype, a), make_const(dtype, b), make_const(dtype, a)}),
            wrap(dtype, wrapped(dtype, a * low) + a));
        EXPECT_EQ(integer(Op::MAX, dtype, a, b), std::max(a, b));
        EXPECT_EQ(integer(Op::MIN, dtype, a, b), std::min(a, b));
        EXPECT_EQ(eval_in(Op::CMPLT, dtype, {make_const(dtype, a), make_const(dtype, b)}),
                  Const::of_bool(a < b));
        EXPECT_EQ(eval_in(Op::CMPLE, dtype, {make_const(dtype, a), make_const(dtype, b)}),
                  Const::of_bool(a <= b));
        EXPECT_EQ(eval_in(Op::CMPEQ, dtype, {make_const(dtype, a), make_const(dtype, b)}),
                  Const::of_bool(a == b));
      }
    }
}

TEST(IntegerOps, QuotientAndRemainderBelongTogether) {
  for (const DType dtype : kIntegers)
    for (const wide a : edges(dtype))
      for (const wide b : edges(dtype)) {
        const wide floor = integer(Op::FLOORDIV, dtype, a, b),
                   floor_rest = integer(Op::FLOORMOD, dtype, a, b);
        const wide trunc = integer(Op::TRUNCDIV, dtype, a, b),
                   trunc_rest = integer(Op::TRUNCMOD, dtype, a, b);
        if (b == 0) {
          EXPECT_TRUE(floor == 0 && floor_rest == 0 && trunc == 0 && trunc_rest == 0);
          continue;
        }
        const wide size = b < 0 ? -b : b;
        EXPECT_TRUE(floor_rest == 0 || (floor_rest < 0) == (b < 0)) << "the sign of the divisor";
        EXPECT_TRUE(trunc_rest == 0 || (trunc_rest < 0) == (a < 0)) << "the sign of the dividend";
        EXPECT_TRUE(-size < floor_rest && floor_rest < size);
        EXPECT_TRUE(-size < trunc_rest && trunc_rest < size);
        // Exact but for the least integer by -1, whose quotient wraps.
        EXPECT_EQ(wrapped(dtype, floor * b + floor_rest), a) << dtype.name();
        EXPECT_EQ(wrapped(dtype, trunc * b + trunc_rest), a) << dtype.name();
        if (dtype.is_signed() && a == int_min(dtype) && b == -1) {
          EXPECT_TRUE(floor == a && trunc == a && floor_rest == 0 && trunc_rest == 0);
        } else {
          EXPECT_EQ(floor * b + floor_rest, a);
          EXPECT_EQ(trunc * b + trunc_rest, a);
        }
      }
}

TEST(IntegerOps, ShiftsBeyondTheWidthLeaveNothingButTheSign) {
  for (const DType dtype : kIntegers)
    for (const wide a : edges(dtype)) {
      for (const wide amount : edges(dtype)) {
        const wide gone = a < 0 ? -1 : 0;
        const bool inside = 0 <= amount && amount < dtype.bits();
        const int by = inside ? static_cast<int>(amount) : 0;
        EXPECT_EQ(integer(Op::SHR, dtype, a, amount), inside ? a >> by : gone) << dtype.name();
        const wide low = static_cast<wide>(static_cast<int64_t>(a));
        EXPECT_EQ(integer(Op::SHL, dtype, a, amount),
                  inside ? wrapped(dtype, low * (wide{1} << by)) : wide{0});
      }
      EXPECT_EQ(integer(Op::SHL, dtype, a, dtype.bits() - 1),
                a % 2 == 0 ? wide{0} : wrapped(dtype, wide{1} << (dtype.bits() - 1)));
    }
}

TEST(IntegerOps, PowerWraps) {
  EXPECT_EQ(integer(Op::POW, dtypes::int64, 3, 39), wide{4052555153018976267});
  EXPECT_EQ(integer(Op::POW, dtypes::uint64, 2, 63), wide{1} << 63);
  EXPECT_EQ(integer(Op::POW, dtypes::uint64, 2, 64), 0);
  EXPECT_EQ(integer(Op::POW, dtypes::int32, 0, 0), 1);
  EXPECT_EQ(integer(Op::POW, dtypes::int32, 0, -1), 0);
  EXPECT_EQ(integer(Op::POW, dtypes::int64, -1, INT64_MIN), 1);
  EXPECT_EQ(integer(Op::POW, dtypes::int64, -1, INT64_MIN + 1), -1);
  EXPECT_EQ(integer(Op::POW, dtypes::uint64, int_max(dtypes::uint64), int_max(dtypes::uint64)),
            int_max(dtypes::uint64));
}

TEST(IntegerOps, TruncIsTheIdentity) {
  EXPECT_EQ(eval_in(Op::TRUNC, dtypes::int8, {Const::of_int(-5)}), Const::of_int(-5));
}

TEST(BoolOps, AreLogical) {
  for (const bool a : {false, true})
    for (const bool b : {false, true}) {
      const Const x = Const::of_bool(a), y = Const::of_bool(b);
      const auto of = [&](Op op) {
        const Const result = eval_in(op, dtypes::bool_, {x, y});
        EXPECT_EQ(result.kind(), Const::Kind::Bool);
        return result.as_bool();
      };
      for (const Op op : {Op::ADD, Op::OR, Op::MAX}) EXPECT_EQ(of(op), a || b) << name(op);
      for (const Op op : {Op::MUL, Op::AND, Op::MIN}) EXPECT_EQ(of(op), a && b) << name(op);
      for (const Op op : {Op::XOR, Op::SUB, Op::CMPNE}) EXPECT_EQ(of(op), a != b) << name(op);
      EXPECT_EQ(of(Op::CMPEQ), a == b);
      EXPECT_EQ(of(Op::CMPLT), !a && b);
      EXPECT_EQ(of(Op::CMPLE), !a || b);
      for (const bool c : {false, true})
        EXPECT_EQ(eval_in(Op::MULACC, dtypes::bool_, {x, y, Const::of_bool(c)}),
                  Const::of_bool((a && b) || c));
    }
}

TEST(Threefry, GivesTheVectorsOfRandom123) {
  const auto pack = [](uint32_t low, uint32_t high) {
    return Const::of_int(static_cast<int64_t>(uint64_t{high} << 32 | low));
  };
  const auto threefry = [](Const counter, Const key) {
    return eval_in(Op::THREEFRY, dtypes::uint64, {counter, key});
  };
  EXPECT_EQ(threefry(pack(0, 0), pack(0, 0)), pack(0x6b200159, 0x99ba4efe));
  EXPECT_EQ(threefry(pack(~0u, ~0u), pack(~0u, ~0u)), pack(0x1cb996fc, 0xbb002be7));
  EXPECT_EQ(threefry(pack(0x243f6a88, 0x85a308d3), pack(0x13198a2e, 0x03707344)),
            pack(0xc4923a9c, 0x483df7a0));
}

// ---- Floats

float random_float(std::mt19937_64& random) { return std::bit_cast<float>(static_cast<uint32_t>(random())); }

TEST(FloatOps, OfFloat32AreThoseOfTheHardware) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; i++) {
    // Half of the time of similar size, where sums cancel and are ties.
    const float a = random_float(random);
    const float b = i % 2 ? random_float(random) : a * std::ldexp(random_float(random), -30);
    const float c = i % 4 < 2 ? random_float(random) : -a * b;
    const DType f32 = dtypes::float32;
    ASSERT_PRED2(same, real(Op::ADD, f32, a, b), a + b);
    ASSERT_PRED2(same, real(Op::SUB, f32, a, b), a - b);
    ASSERT_PRED2(same, real(Op::MUL, f32, a, b), a * b);
    ASSERT_PRED2(same, real(Op::FDIV, f32, a, b), a / b);
    ASSERT_PRED2(same, real(Op::RECIP, f32, a), 1 / a);
    ASSERT_PRED2(same, real(Op::SQRT, f32, std::abs(a)), std::sqrt(std::abs(a)));
    ASSERT_PRED2(same, real(Op::TRUNC, f32, a), std::trunc(a));
    ASSERT_PRED2(same, real(Op::NEG, f32, a), -a);
    ASSERT_PRED2(same, real(Op::MULACC, f32, a, b, c), std::fma(a, b, c));
  }
}

TEST(FloatOps, OfEveryPairOfEightBitFloatsAreRoundedOnce) {
  for (const DType dtype : {dtypes::fp8e4m3, dtypes::fp8e5m2})
    for (uint64_t i = 0; i < 256; i++)
      for (uint64_t j = 0; j < 256; j++) {
        // Sums and products of so few bits are exact in a double.
        const double a = from_bits(i, dtype).as_float(), b = from_bits(j, dtype).as_float();
        ASSERT_PRED2(same, real(Op::ADD, dtype, a, b), round_float(dtype, a + b));
        ASSERT_PRED2(same, real(Op::SUB, dtype, a, b), round_float(dtype, a - b));
        ASSERT_PRED2(same, real(Op::MUL, dtype, a, b), round_float(dtype, a * b));
        ASSERT_PRED2(same, real(Op::MULACC, dtype, a, b, 1), round_float(dtype, a * b + 1));
        ASSERT_PRED2(same, real(Op::FDIV, dtype, a, b), round_float(dtype, a / b));
      }
}

TEST(FloatOps, MultiplyAddRoundsOnce) {
  // 7 * 37 = 259 is the middle of the bfloat16 values 258 and 260: what is added decides, however small.
  EXPECT_EQ(real(Op::MULACC, dtypes::bfloat16, 7, 37, 0), 260);
  EXPECT_EQ(real(Op::MULACC, dtypes::bfloat16, 7, 37, 0x1p-100), 260);
  EXPECT_EQ(real(Op::MULACC, dtypes::bfloat16, 7, 37, -0x1p-100), 258);
  EXPECT_EQ(real(Op::MULACC, dtypes::bfloat16, -7, 37, 0x1p-100), -258);
  EXPECT_EQ(real(Op::MULACC, dtypes::bfloat16, -7, 37, -0x1p-100), -260);
  // 257 = 256 + 1 is a tie that goes down.
  EXPECT_EQ(real(Op::MULACC, dtypes::bfloat16, 1, 256, 1), 256);
  // In two steps the product would be 1, and nothing left.
  EXPECT_EQ(real(Op::MULACC, dtypes::float16, 1 + 0x1p-10, 1 - 0x1p-10, -1), -0x1p-20);
  EXPECT_EQ(real(Op::MULACC, dtypes::float32, 1 + 0x1p-23, 1 - 0x1p-23, -1), -0x1p-46);
  EXPECT_EQ(real(Op::MULACC, dtypes::float64, 1 + 0x1p-52, 1 - 0x1p-52, -1), -0x1p-104);
  // The sum in double is the middle of two float32 values, the true sum is not.
  EXPECT_EQ(real(Op::MULACC, dtypes::float32, 1 + 0x1p-12, 1 + 0x1p-12, 0x1p-60), 0x1.002002p0);
  for (const DType dtype : kNarrowFloats) {
    EXPECT_TRUE(std::isnan(real(Op::MULACC, dtype, kInf, 0, 1)));
    EXPECT_TRUE(std::isnan(real(Op::MULACC, dtype, kInf, 1, -kInf)));
    EXPECT_PRED2(same, real(Op::MULACC, dtype, 1, -0.0, -0.0), -0.0);
    EXPECT_PRED2(same, real(Op::MULACC, dtype, 2, 3, -6), 0.0);
  }
}

TEST(FloatOps, DivisionByZero) {
  for (const DType dtype :
       {dtypes::fp8e5m2, dtypes::float16, dtypes::bfloat16, dtypes::float32, dtypes::float64}) {
    EXPECT_EQ(real(Op::FDIV, dtype, 1, 0.0), kInf);
    EXPECT_EQ(real(Op::FDIV, dtype, 1, -0.0), -kInf);
    EXPECT_TRUE(std::isnan(real(Op::FDIV, dtype, 0, 0)));
    EXPECT_EQ(real(Op::RECIP, dtype, -0.0), -kInf);
    EXPECT_EQ(real(Op::LOG2, dtype, 0), -kInf);
    EXPECT_TRUE(std::isnan(real(Op::SQRT, dtype, -1)));
  }
  EXPECT_TRUE(std::isnan(real(Op::RECIP, dtypes::fp8e4m3, 0)));
}

TEST(FloatOps, MaxAndMinOrderZerosAndKeepNaN) {
  for (const DType dtype : {dtypes::float16, dtypes::float32, dtypes::float64}) {
    for (const auto& [a, b] : {std::pair(0.0, -0.0), std::pair(-0.0, 0.0)}) {
      EXPECT_PRED2(same, real(Op::MAX, dtype, a, b), 0.0);
      EXPECT_PRED2(same, real(Op::MIN, dtype, a, b), -0.0);
    }
    for (const double x : {-kInf, -1.0, -0.0, 0.0, 2.0, kInf}) {
      for (const Op op : {Op::MAX, Op::MIN}) {
        EXPECT_TRUE(std::isnan(real(op, dtype, x, kNaN)));
        EXPECT_TRUE(std::isnan(real(op, dtype, kNaN, x)));
        EXPECT_PRED2(same, real(op, dtype, x, x), x);
      }
      EXPECT_PRED2(same, real(Op::MAX, dtype, x, -kInf), x);
      EXPECT_PRED2(same, real(Op::MIN, dtype, kInf, x), x);
    }
  }
}

TEST(FloatOps, ComparisonsAreThoseOfIEEE) {
  const auto is = [](Op op, double a, double b) {
    return eval_in(op, dtypes::float32, {Const::of_float(a), Const::of_float(b)}).as_bool();
  };
  for (const double x : {0.0, 1.0, kInf, kNaN}) {
    EXPECT_FALSE(is(Op::CMPEQ, x, kNaN) || is(Op::CMPLT, x, kNaN) || is(Op::CMPLE, x, kNaN));
    EXPECT_FALSE(is(Op::CMPEQ, kNaN, x) || is(Op::CMPLT, kNaN, x) || is(Op::CMPLE, kNaN, x));
    EXPECT_TRUE(is(Op::CMPNE, x, kNaN));
  }
  EXPECT_TRUE(is(Op::CMPEQ, 0.0, -0.0));
  EXPECT_FALSE(is(Op::CMPLT, -0.0, 0.0));
  EXPECT_TRUE(is(Op::CMPLT, -kInf, kInf));
  EXPECT_TRUE(is(Op::CMPLE, 1, 1));
}

TEST(FloatOps, FunctionsAreRoundedToTheType) {
  EXPECT_EQ(real(Op::EXP2, dtypes::float32, 3), 8);
  EXPECT_EQ(real(Op::EXP2, dtypes::float16, 16), kInf);
  EXPECT_EQ(real(Op::EXP2, dtypes::fp8e4m3, 9), 448);
  EXPECT_EQ(real(Op::EXP2, dtypes::float32, -149), 0x1p-149);
  EXPECT_EQ(real(Op::EXP2, dtypes::float32, -151), 0);
  EXPECT_EQ(real(Op::LOG2, dtypes::float64, 0x1p-1074), -1074);
  EXPECT_EQ(real(Op::SIN, dtypes::float32, 1), static_cast<double>(static_cast<float>(std::sin(1.0))));
  EXPECT_EQ(real(Op::COS, dtypes::float32, 1), static_cast<double>(static_cast<float>(std::cos(1.0))));
  EXPECT_EQ(real(Op::POW, dtypes::float16, 10, 5), kInf);
  EXPECT_EQ(real(Op::POW, dtypes::float32, -2, 3), -8);
  EXPECT_PRED2(same, real(Op::TRUNC, dtypes::float32, -0.5), -0.0);
}

// ---- Any dtype

TEST(Where, PicksAndLooksAtNothingElse) {
  const Const yes = Const::of_bool(true), no = Const::of_bool(false), x = Const::of_int(1),
              y = Const::of_int(2);
  const Const invalid = Const::invalid();
  EXPECT_EQ(eval_in(Op::WHERE, dtypes::index, {yes, x, y}), x);
  EXPECT_EQ(eval_in(Op::WHERE, dtypes::index, {no, x, y}), y);
  EXPECT_EQ(eval_in(Op::WHERE, dtypes::index, {yes, x, invalid}), x);
  EXPECT_EQ(eval_in(Op::WHERE, dtypes::index, {no, x, invalid}), invalid);
  EXPECT_EQ(eval_in(Op::WHERE, dtypes::index, {invalid, x, x}), invalid);
  EXPECT_EQ(eval_in(Op::WHERE, dtypes::float32, {no, Const::of_float(1), Const::of_float(kNaN)}),
            Const::of_float(kNaN));
}

TEST(Invalid, DoesNotMatterToAConditionThatIsDecided) {
  const Const yes = Const::of_bool(true), no = Const::of_bool(false), invalid = Const::invalid();
  EXPECT_EQ(eval_in(Op::AND, dtypes::bool_, {no, invalid}), no);
  EXPECT_EQ(eval_in(Op::AND, dtypes::bool_, {invalid, yes}), invalid);
  EXPECT_EQ(eval_in(Op::OR, dtypes::bool_, {invalid, yes}), yes);
  EXPECT_EQ(eval_in(Op::OR, dtypes::bool_, {no, invalid}), invalid);
}

TEST(Invalid, MakesEveryResultInvalid) {
  const Const one = Const::of_int(1), invalid = Const::invalid();
  for (int i = 0; i < kOpCount; i++) {
    const Op op = static_cast<Op>(i);
    if (is_unary(op)) {
      EXPECT_TRUE(eval_in(op, dtypes::int32, {invalid}).is_invalid()) << name(op);
    } else if (is_binary(op)) {
      EXPECT_TRUE(eval_in(op, dtypes::int32, {invalid, one}).is_invalid()) << name(op);
      EXPECT_TRUE(eval_in(op, dtypes::int32, {one, invalid}).is_invalid()) << name(op);
    }
  }
  EXPECT_TRUE(eval_in(Op::MULACC, dtypes::int32, {one, one, invalid}).is_invalid());
}

TEST(Casts, ConvertValuesOrKeepBits) {
  const auto cast = [](Op op, Const value, DType from, DType to) { return eval(op, to, from, {&value, 1}); };
  EXPECT_EQ(cast(Op::CAST, Const::of_float(-1.5), dtypes::float32, dtypes::int8), Const::of_int(-1));
  EXPECT_EQ(cast(Op::CAST, Const::of_int(-1), dtypes::int32, dtypes::uint8), Const::of_int(255));
  EXPECT_EQ(cast(Op::CAST, Const::of_int(-1), dtypes::uint64, dtypes::float32), Const::of_float(0x1p64));
  EXPECT_EQ(cast(Op::CAST, Const::of_float(0.1), dtypes::float64, dtypes::bool_), Const::of_bool(true));
  EXPECT_EQ(cast(Op::BITCAST, Const::of_float(1), dtypes::float32, dtypes::int32), Const::of_int(0x3f800000));
  EXPECT_EQ(cast(Op::BITCAST, Const::of_int(-1), dtypes::int16, dtypes::uint16), Const::of_int(0xffff));
  EXPECT_EQ(cast(Op::BITCAST, Const::of_int(0xc000), dtypes::uint16, dtypes::float16), Const::of_float(-2));
  EXPECT_EQ(cast(Op::BITCAST, Const::of_int(1), dtypes::uint32, dtypes::float32), Const::of_float(0x1p-149));
}

TEST(Vectors, StandForTheirScalars) {
  const Const a = Const::of_int(100), b = Const::of_int(100);
  EXPECT_EQ(eval_in(Op::ADD, dtypes::int8.vec(4), {a, b}), Const::of_int(-56));
  EXPECT_EQ(eval_in(Op::MUL, dtypes::float16.vec(2), {Const::of_float(256), Const::of_float(256)}),
            Const::of_float(kInf));
}

TEST(Identity, LeavesTheOtherOperandAlone) {
  std::mt19937_64 random(3);
  for (const DType dtype : dtypes::all)
    for (const Op op : {Op::ADD, Op::MUL, Op::MAX, Op::MIN, Op::AND, Op::OR, Op::XOR}) {
      if (dtype.is_float() && (op == Op::AND || op == Op::OR || op == Op::XOR)) continue;
      const Const identity = identity_element(op, dtype);
      for (int i = 0; i < 300; i++) {
        const Const x = from_bits(random(), dtype);
        if (op == Op::ADD && x == Const::of_float(-0.0)) continue;  // a sum from 0.0 never is -0.0
        EXPECT_EQ(eval_in(op, dtype, {identity, x}), x) << name(op) << " of " << dtype.name();
        EXPECT_EQ(eval_in(op, dtype, {x, identity}), x) << name(op) << " of " << dtype.name();
      }
    }
}

TEST(Identity, OfOtherOpsIsRefused) {
  for (const Op op : {Op::SUB, Op::FDIV, Op::CMPEQ, Op::SHL, Op::WHERE, Op::NEG})
    EXPECT_THROW(identity_element(op, dtypes::int32), DTypeError) << name(op);
  for (const Op op : {Op::AND, Op::OR, Op::XOR})
    EXPECT_THROW(identity_element(op, dtypes::float32), DTypeError);
  for (const Op op : {Op::ADD, Op::MAX, Op::AND, Op::XOR})
    for (const DType dtype : {dtypes::void_, dtypes::int32.ptr(4)})
      EXPECT_THROW(identity_element(op, dtype), DTypeError) << name(op) << " of " << dtype.name();
}

TEST(Ops, WithoutAMeaningForTheDTypeAreOurMistake) {
  const Const one = Const::of_int(1), real_one = Const::of_float(1);
  for (const Op op : {Op::RECIP, Op::SQRT, Op::EXP2, Op::LOG2, Op::SIN, Op::COS})
    EXPECT_THROW(eval_in(op, dtypes::int32, {one}), InternalError) << name(op);
  EXPECT_THROW(eval_in(Op::FDIV, dtypes::int32, {one, one}), InternalError);
  EXPECT_THROW(eval_in(Op::THREEFRY, dtypes::uint32, {one, one}), InternalError);
  for (const Op op : {Op::AND, Op::OR, Op::XOR, Op::FLOORDIV, Op::FLOORMOD, Op::TRUNCDIV, Op::TRUNCMOD,
                      Op::SHL, Op::SHR, Op::THREEFRY})
    EXPECT_THROW(eval_in(op, dtypes::float32, {real_one, real_one}), InternalError) << name(op);
  EXPECT_THROW(eval_in(Op::ADD, dtypes::int32, {one}), InternalError);
  EXPECT_THROW(eval_in(Op::LOAD, dtypes::int32, {one}), InternalError);
}

}  // namespace
}  // namespace quern
