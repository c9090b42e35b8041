// Conversions between all dtypes, and their bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

// Special values, and random bits.
Array interesting(DType dtype) {
  std::mt19937_64 random = generator(dtype.name());
  Numbers numbers;
  for (int i = 0; i < 40; i++)
    numbers.push_back(
        decoded(dtype, dtype.bits() == 64 ? random() : random() & ((uint64_t{1} << dtype.bits()) - 1)));
  const double inf = std::numeric_limits<double>::infinity();
  if (dtype.is_float())
    for (const double v :
         {0.0,          -0.0,    0.5,     -0.5,   0.99,    -0.99,   1.0,     127.5,   128.0,
          255.5,        256.0,   -128.9,  -129.0, 32767.5, 65504.0, 65519.0, 65520.0, 2147483647.0,
          4294967295.0, 9.3e18,  -9.3e18, 1.9e19, 1e38,    3.5e38,  448.0,   464.0,   465.0,
          57344.0,      61440.0, 1e-3,    2e-3,   3e-8,    6e-8,    inf,     -inf,    std::nan("")})
      numbers.push_back(rounded(dtype, v));
  else if (!dtype.is_bool())
    for (const Whole v : {Whole{0}, Whole{1}, least(dtype), least(dtype) + 1, greatest(dtype),
                          greatest(dtype) - 1, greatest(dtype) / 2, greatest(dtype) / 2 + 1})
      numbers.push_back(static_cast<Number>(v));
  const auto n = std::ssize(numbers) / 2 * 2;
  numbers.resize(static_cast<size_t>(n));
  return {dtype, {n}, numbers};
}

TEST(Cast, EveryTypeToEveryOther) {
  for (const DType from : kAll) {
    const Array a = interesting(from);
    const Tensor x = tensor_of(a);
    for (const DType to : kAll) {
      Array want(to, a.shape);
      for (size_t i = 0; i < a.at.size(); i++) want.at[i] = converted(from, to, a.at[i]);
      EXPECT_EQ(difference(array_of(x.cast(to)), want, {.signed_zeros = true}), "")
          << from.name() << " to " << to.name();
    }
  }
}

TEST(Cast, ShortNames) {
  const Tensor x = Tensor::from(std::vector<float>{-1.5, 0, 2.75});
  EXPECT_EQ(x.f16().dtype(), dtypes::float16);
  EXPECT_EQ(x.bf16().dtype(), dtypes::bfloat16);
  EXPECT_EQ(x.f16().f32().to_vector<float>(), (std::vector<float>{-1.5, 0, 2.75}));
  EXPECT_EQ(x.f64().to_vector<double>(), (std::vector<double>{-1.5, 0, 2.75}));
  EXPECT_EQ(x.i32().to_vector<int32_t>(), (std::vector<int32_t>{-1, 0, 2}));
  EXPECT_EQ(x.i64().to_vector<int64_t>(), (std::vector<int64_t>{-1, 0, 2}));
  EXPECT_EQ(x.boolean().to_vector<bool>(), (std::vector<bool>{true, false, true}));
}

// The same bytes, in as many elements as they are. NaNs may change their bits.
TEST(Cast, BitcastKeepsTheBytes) {
  for (const DType from : kInts)
    for (const DType to : kInts) {
      Array a = interesting(from);
      a.at.resize(16), a.shape = {2, 8};
      const Tensor x = tensor_of(a), y = x.bitcast(to);
      EXPECT_EQ(y.shape(), (Shape{2, 8 * from.bits() / to.bits()}));
      EXPECT_EQ(y.bytes(), x.bytes()) << from.name() << " as " << to.name();
      EXPECT_EQ(tensor_of(a).T().bitcast(from).bytes(), x.T().bytes());
      EXPECT_EQ(tensor_of(a).flip(1).bitcast(to).bytes(),
                tensor_of(a).flip(1).contiguous().bitcast(to).bytes());
    }
  for (const DType type : kFloats) {
    const DType bits = type.bits() == 8    ? dtypes::uint8
                       : type.bits() == 16 ? dtypes::uint16
                       : type.bits() == 32 ? dtypes::uint32
                                           : dtypes::uint64;
    Array a = interesting(type), want(bits, a.shape);
    for (Number& n : a.at)
      if (std::isnan(n)) n = 1;
    for (size_t i = 0; i < a.at.size(); i++) want.at[i] = static_cast<Number>(encoded(type, a.at[i]));
    EXPECT_EQ(difference(array_of(tensor_of(a).bitcast(bits)), want, {}), "") << type.name();
    EXPECT_EQ(difference(array_of(tensor_of(want).bitcast(type)), a, {.signed_zeros = true}), "")
        << type.name();
  }
}

// The gradient of a cast comes back in the type it left; integers stop it.
TEST(Cast, Gradients) {
  const Tensor x = Tensor::from(std::vector<float>{-1.5, 0.25, 2.75}), y = x.f16() * x.f16();
  const Tensor g = y.f64().sum().gradient({x})[0];
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{-3, 0.5, 5.5}));
  EXPECT_THROW(x.i32().f32().sum().gradient({x}), Error);
  EXPECT_EQ(x.i32().f32().sum().gradient({x}, {}, true)[0].to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_THROW(x.sum().gradient({x.i32()}), DTypeError);
}

// Two dtypes meet in one that holds both, and both are converted before they are added.
TEST(Cast, Promotion) {
  for (const DType a : kAll)
    for (const DType b : kAll) {
      const DType both = promote(a, b);
      EXPECT_EQ(both, promote(b, a));
      const Array x(a, {2}, {1, a.is_bool() ? Number{0} : Number{2}}),
          y(b, {2}, {1, b.is_bool() ? Number{1} : Number{3}});
      const Array got = array_of(tensor_of(x) + tensor_of(y));
      const Array want(both, {2}, both.is_bool() ? Numbers{1, 1} : Numbers{2, x.at[1] + y.at[1]});
      EXPECT_EQ(difference(got, want, {}), "") << a.name() << " and " << b.name();
      if (a.is_float() && b.is_float()) {
        EXPECT_GE(both.bits(), std::max(a.bits(), b.bits()));
      } else if (a.is_float() || b.is_float()) {
        EXPECT_EQ(both, a.is_float() ? a : b);
      } else {
        EXPECT_TRUE(!both.is_float());
      }
    }
}

}  // namespace
}  // namespace quern::optest
