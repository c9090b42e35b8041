// Arithmetic and comparisons of two and three operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

using Wholes = std::vector<Whole>;
using Op2 = std::function<Tensor(const Tensor&, const Operand&)>;

constexpr Number kNaN = std::numeric_limits<Number>::quiet_NaN();

Number truth(bool b) { return b ? 1 : 0; }
bool nan_among(const Numbers& n) {
  return std::ranges::any_of(n, [](Number x) { return std::isnan(x); });
}

// The remainder with the sign of the divisor, and its quotient.
Number floor_mod(Number x, Number y) {
  const Number r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
Number floor_div(Number x, Number y) {
  if (std::isnan(x) || std::isnan(y)) return kNaN;
  if (y == 0 || std::isinf(x)) return x / y;
  if (std::isinf(y)) return x != 0 && (x < 0) != (y < 0) ? -1 : 0;
  return std::nearbyint((x - floor_mod(x, y)) / y);
}
Whole floor_div_integers(Whole x, Whole y) {
  if (y == 0) return 0;
  return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
}

struct Options {
  Rule result = as_is;
  Types types = kNumbers;
  double low = 0.4, high = 3;
  bool any = true;  // integers of any size, infinities and NaN
  double ulps = 0, narrow = 1;
  std::vector<size_t> by = {0, 1};
  bool twice = false;
};

Row binary(const std::string& name, const Op2& op, const OfNumbers& f, const OfWholes& integers,
           const Options& o = {}) {
  Row row{.name = name,
          .ours = [=](const Tensors& x) { return op(x[0], x[1]); },
          .reference = pointwise(o.result, f, integers),
          .inputs = {{o.low, o.high}, {o.low, o.high}},
          .shapes = broadcast_cases(2),
          .types = o.types,
          .close = {o.ulps},
          .narrow = o.narrow,
          .by = o.by,
          .twice = o.twice};
  row.specials = row.wrapping = o.any;
  return row;
}

std::vector<Row> arithmetic() {
  return {
      binary(
          "add", &Tensor::add, [](const Numbers& n) { return n[0] + n[1]; },
          [](const Wholes& n, DType) { return n[0] + n[1]; }, {.types = kAll, .twice = true}),
      binary(
          "sub", &Tensor::sub, [](const Numbers& n) { return n[0] - n[1]; },
          [](const Wholes& n, DType) { return n[0] - n[1]; }),
      binary(
          "mul", &Tensor::mul, [](const Numbers& n) { return n[0] * n[1]; },
          [](const Wholes& n, DType) { return wrapped_product(n[0], n[1]); }, {.types = kAll, .twice = true}),
      binary(
          "div", [](const Tensor& x, const Operand& y) { return x.div(y); },
          [](const Numbers& n) { return n[0] / n[1]; }, {},
          {.result = as_float, .types = kAll, .twice = true}),
      binary(
          "div floor", [](const Tensor& x, const Operand& y) { return x.div(y, "floor"); },
          [](const Numbers& n) { return floor_div(n[0], n[1]); },
          [](const Wholes& n, DType) { return floor_div_integers(n[0], n[1]); }, {.by = {}}),
      binary(
          "div trunc of integers", [](const Tensor& x, const Operand& y) { return x.div(y, "trunc"); },
          [](const Numbers& n) { return std::trunc(n[0] / n[1]); },
          [](const Wholes& n, DType) { return n[1] == 0 ? Whole{0} : n[0] / n[1]; },
          {.types = kInts, .by = {}}),
      binary(
          "div trunc", [](const Tensor& x, const Operand& y) { return x.div(y, "trunc"); },
          [](const Numbers& n) { return std::trunc(n[0] / n[1]); }, {}, {.types = kFloats}),
      binary(
          "floordiv", &Tensor::floordiv, [](const Numbers& n) { return floor_div(n[0], n[1]); },
          [](const Wholes& n, DType) { return floor_div_integers(n[0], n[1]); }),
      binary(
          "mod", &Tensor::mod, [](const Numbers& n) { return floor_mod(n[0], n[1]); },
          [](const Wholes& n, DType) {
            return n[0] - wrapped_product(floor_div_integers(n[0], n[1]), n[1]) - (n[1] == 0 ? n[0] : 0);
          }),
      binary(
          "fmod", &Tensor::fmod, [](const Numbers& n) { return std::fmod(n[0], n[1]); },
          [](const Wholes& n, DType) { return n[1] == 0 ? Whole{0} : n[0] % n[1]; }),
      binary(
          "maximum", &Tensor::maximum,
          [](const Numbers& n) { return nan_among(n) ? kNaN : std::max(n[0], n[1]); },
          [](const Wholes& n, DType) { return std::max(n[0], n[1]); }, {.types = kAll}),
      binary(
          "minimum", &Tensor::minimum,
          [](const Numbers& n) { return nan_among(n) ? kNaN : std::min(n[0], n[1]); },
          [](const Wholes& n, DType) { return std::min(n[0], n[1]); }, {.types = kAll}),
      binary(
          "pow", &Tensor::pow, [](const Numbers& n) { return std::pow(n[0], n[1]); },
          [](const Wholes& n, DType d) {
            Whole result = 1;
            for (Whole i = 0; i < n[1]; i++) result = static_cast<Whole>(wrapped(d, result * n[0]));
            return result;
          },
          {.low = 0.4, .high = 3, .any = false, .ulps = 1, .twice = true}),
      binary("pow of special values", &Tensor::pow, [](const Numbers& n) { return std::pow(n[0], n[1]); }, {},
             {.types = kFloats, .ulps = 1, .by = {}}),
      binary("copysign", &Tensor::copysign, [](const Numbers& n) { return std::copysign(n[0], n[1]); }, {},
             {.result = as_float, .by = {0}}),
      binary("logaddexp", &Tensor::logaddexp,
             [](const Numbers& n) {
               if (nan_among(n)) return kNaN;
               if (std::isinf(n[0]) || std::isinf(n[1])) return std::max(n[0], n[1]);
               return std::max(n[0], n[1]) + std::log1p(std::exp(-std::abs(n[0] - n[1])));
             },
             {}, {.result = as_float, .types = kAll, .ulps = 4, .twice = true}),
  };
}

TEST(Arithmetic, Values) { expect_all(arithmetic()); }
TEST(Arithmetic, Gradients) { expect_all_gradients(arithmetic()); }

// ---- Comparisons and bits

Row comparison(const std::string& name, const Op2& op, bool (*f)(Number, Number)) {
  return binary(
      name, op, [=](const Numbers& n) { return truth(f(n[0], n[1])); },
      [=](const Wholes& n, DType) {  // 64-bit integers are exact as Numbers
        return Whole{f(static_cast<Number>(n[0]), static_cast<Number>(n[1]))};
      },
      {.result = as_bool, .types = kAll, .low = -2, .high = 2, .by = {}});
}
Row of_bits(const std::string& name, const Op2& op, Whole (*f)(Whole, Whole, DType),
            const Types& types = kBits) {
  return binary(name, op, {}, [=](const Wholes& n, DType d) { return f(n[0], n[1], d); },
                {.types = types, .low = 0, .high = 9, .by = {}});
}
bool shifts_out(Whole by, DType d) { return by < 0 || by >= d.bits(); }

std::vector<Row> comparisons_and_bits() {
  return {
      comparison("eq", &Tensor::eq, [](Number x, Number y) { return x == y; }),
      comparison("ne", &Tensor::ne, [](Number x, Number y) { return x != y; }),
      comparison("lt", &Tensor::lt, [](Number x, Number y) { return x < y; }),
      comparison("le", &Tensor::le, [](Number x, Number y) { return x <= y; }),
      comparison("gt", &Tensor::gt, [](Number x, Number y) { return x > y; }),
      comparison("ge", &Tensor::ge, [](Number x, Number y) { return x >= y; }),
      of_bits("bitwise_and", &Tensor::bitwise_and, [](Whole x, Whole y, DType) { return x & y; }),
      of_bits("bitwise_or", &Tensor::bitwise_or, [](Whole x, Whole y, DType) { return x | y; }),
      of_bits("bitwise_xor", &Tensor::bitwise_xor, [](Whole x, Whole y, DType) { return x ^ y; }),
      of_bits(
          "bitwise_not", [](const Tensor& x, const Operand& y) { return x.bitwise_not() ^ y; },
          [](Whole x, Whole y, DType d) { return d.is_bool() ? Whole{x == 0} ^ y : ~x ^ y; }),
      of_bits(
          "lshift", &Tensor::lshift,
          [](Whole x, Whole y, DType d) {
            return shifts_out(y, d) ? Whole{0} : wrapped_product(x, Whole{1} << y);
          },
          kInts),
      of_bits(
          "rshift", &Tensor::rshift,
          [](Whole x, Whole y, DType d) { return shifts_out(y, d) ? Whole{x < 0 ? -1 : 0} : x >> y; }, kInts),
  };
}

TEST(ComparisonsAndBits, Values) { expect_all(comparisons_and_bits()); }

// ---- Three operands, and numbers beside tensors

Row of_three(const std::string& name, Function<Tensor> ours, const OfNumbers& f,
             const std::vector<Input>& inputs, const std::vector<size_t>& by, const Types& types = kFloats) {
  return {.name = name,
          .ours = std::move(ours),
          .reference = pointwise(
              as_is, f,
              [f](const Wholes& n, DType) { return static_cast<Whole>(f(Numbers(n.begin(), n.end()))); }),
          .inputs = inputs,
          .shapes = broadcast_cases(inputs.size()),
          .types = types,
          .narrow = 1,
          .by = by,
          .twice = true};
}

std::vector<Row> three_operands() {
  const auto clamped = [](const Numbers& n) {
    return nan_among(n) ? kNaN : std::min(std::max(n[0], n[1]), n[2]);
  };
  std::vector<Row> rows = {
      of_three(
          "where", [](const Tensors& x) { return x[0].where(x[1], x[2]); },
          [](const Numbers& n) { return n[0] != 0 ? n[1] : n[2]; }, {{0, 1, dtypes::bool_}, {}, {}}, {1, 2},
          kAll),
      of_three(
          "masked_fill", [](const Tensors& x) { return x[1].masked_fill(x[0], 1); },
          [](const Numbers& n) { return n[0] != 0 ? 1 : n[1]; }, {{0, 1, dtypes::bool_}, {}}, {1}, kNumbers),
      of_three(
          "lerp", [](const Tensors& x) { return x[0].lerp(x[1], x[2]); },
          [](const Numbers& n) { return n[0] + (n[1] - n[0]) * n[2]; }, {{}, {}, {0, 1}}, {0, 1, 2}),
      of_three(
          "clamp", [](const Tensors& x) { return x[0].clamp(x[1], x[2]); }, clamped,
          {{-3, 3}, {-2, 1}, {-1, 2}}, {0, 1, 2}, kAll),
      of_three(
          "clamp by numbers", [](const Tensors& x) { return x[0].clamp(1, 2); },
          [=](const Numbers& n) { return clamped({n[0], 1, 2}); }, {{-1, 4}}, {0}, kNumbers),
      of_three(
          "clamp_min", [](const Tensors& x) { return x[0].clamp_min(x[1]); },
          [](const Numbers& n) { return nan_among(n) ? kNaN : std::max(n[0], n[1]); }, {{}, {}}, {0, 1},
          kAll),
      of_three(
          "clamp_max", [](const Tensors& x) { return x[0].clamp_max(x[1]); },
          [](const Numbers& n) { return nan_among(n) ? kNaN : std::min(n[0], n[1]); }, {{}, {}}, {0, 1},
          kAll),
      of_three(
          "multiplied by a number", [](const Tensors& x) { return 3 - x[0] * 2; },
          [](const Numbers& n) { return 3 - n[0] * 2; }, {{-2, 1}}, {0}, kNumbers),
      of_three(
          "modulo a number", [](const Tensors& x) { return x[0] % 3; },
          [](const Numbers& n) { return floor_mod(n[0], 3); }, {{-5, 5}}, {0}, kNumbers),
      of_three(
          "pow of 2", [](const Tensors& x) { return x[0].pow(2); },
          [](const Numbers& n) { return n[0] * n[0]; }, {{-2, 2}}, {0}, kNumbers),
      of_three(
          "pow of 3", [](const Tensors& x) { return x[0].pow(3); },
          [](const Numbers& n) { return n[0] * n[0] * n[0]; }, {{-2, 2}}, {0}, kNumbers),
      of_three(
          "pow of a half", [](const Tensors& x) { return x[0].pow(0.5); },
          [](const Numbers& n) { return std::sqrt(n[0]); }, {{0.2, 2}}, {0}),
      of_three(
          "pow, a number to a tensor", [](const Tensors& x) { return x[0].full_like(2.0).pow(x[0]); },
          [](const Numbers& n) { return std::exp2(n[0]); }, {{-2, 2}}, {0}),
  };
  rows[0].specials = rows[1].specials = rows[3].specials = true;
  for (Row& row : rows) row.close.ulps = 1;
  rows[2].close = {4, true}, rows[2].narrow = 1;  // sums of rounded products
  rows[7].narrow = rows[8].narrow = 4;
  return rows;
}

TEST(ThreeOperands, Values) { expect_all(three_operands()); }
TEST(ThreeOperands, Gradients) { expect_all_gradients(three_operands()); }

TEST(Arithmetic, IsClose) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor a = Tensor::from(std::vector<double>{1, 1, 0, inf, inf, nan, 1e8, 1e8}),
               b = Tensor::from(
                   std::vector<double>{1.000009, 1.00002, 1e-9, inf, -inf, nan, 1e8 + 999, 1e8 + 1001});
  EXPECT_EQ(array_of(a.isclose(b)).at, (Numbers{1, 0, 1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(array_of(a.isclose(b, 1e-5, 1e-8, true)).at, (Numbers{1, 0, 1, 1, 0, 1, 1, 0}));
  EXPECT_FALSE(a.allclose(b));
  EXPECT_TRUE(a.allclose(a, 0, 0, true));
  EXPECT_TRUE(Tensor::zeros({0}).allclose(Tensor::zeros({0})));
}

// Threefry-2x32 of 20 rounds, with the known answers of its authors.
uint64_t threefry(uint64_t counter, uint64_t key) {
  const uint32_t keys[3] = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32),
                            static_cast<uint32_t>(key) ^ static_cast<uint32_t>(key >> 32) ^ 0x1BD11BDAu};
  constexpr int kTurns[] = {13, 15, 26, 6, 17, 29, 16, 24};
  uint32_t x = static_cast<uint32_t>(counter) + keys[0], y = static_cast<uint32_t>(counter >> 32) + keys[1];
  for (uint32_t round = 0; round < 20; round++) {
    x += y;
    const int turn = kTurns[round % 8];
    y = ((y << turn) | (y >> (32 - turn))) ^ x;
    if (round % 4 != 3) continue;
    const uint32_t step = round / 4 + 1;
    x += keys[step % 3];
    y += keys[(step + 1) % 3] + step;
  }
  return (uint64_t{y} << 32) | x;
}

TEST(Arithmetic, Threefry) {
  EXPECT_EQ(threefry(0, 0), 0x99ba4efe6b200159u);
  EXPECT_EQ(threefry(~uint64_t{0}, ~uint64_t{0}), 0xbb002be71cb996fcu);
  EXPECT_EQ(threefry(0x85a308d3243f6a88u, 0x0370734413198a2eu), 0x483df7a0c4923a9cu);
  expect_values(of_bits(
      "threefry", [](const Tensor& x, const Operand& y) { return x.threefry(y.tensor()); },
      [](Whole x, Whole y, DType) {
        return static_cast<Whole>(threefry(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
      },
      {dtypes::uint64}));
}

// Where nothing is left over the slopes are those beside it.
TEST(Arithmetic, SlopesOfARestOfZero) {
  for (const bool floor : {false, true}) {
    const Tensor x = Tensor::from<float>({2, 3, -6, 0, 1.5}), y = Tensor::from<float>({1, 3, 2, 3, 1});
    const std::vector<Tensor> slopes = (floor ? x.mod(y) : x.fmod(y)).sum().gradient({x, y});
    EXPECT_EQ(slopes[0].to_vector<float>(), std::vector<float>(5, 1));
    EXPECT_EQ(slopes[1].to_vector<float>(), (std::vector<float>{-2, -1, 3, 0, -1}));
  }
}

}  // namespace
}  // namespace quern::optest
