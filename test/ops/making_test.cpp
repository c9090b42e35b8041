// Tensors from nothing, from memory and from chance.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "quern/runtime/device.h"
#include "test/ops/row.h"

namespace quern::optest {
namespace {

using dtypes::float32, dtypes::float64, dtypes::int32, dtypes::int64;

Array counted(DType dtype, const Ints& shape, const std::function<Number(const Ints&)>& f) {
  Array a(dtype, shape);
  each(shape, [&](const Ints& i) { a(i) = f(i); });
  return a;
}
std::string differs(const Tensor& x, const Array& want, const Closeness& close = {}) {
  return difference(array_of(x), want, close);
}

TEST(Making, Constants) {
  for (const DType dtype : kAll)
    for (const Ints& shape : std::vector<Ints>{{2, 3}, {}, {0}, {2, 0, 3}, {1}}) {
      const TensorOptions options{.dtype = dtype};
      EXPECT_EQ(
          differs(Tensor::zeros(dims(shape), options), counted(dtype, shape, [](const Ints&) { return 0; })),
          "");
      EXPECT_EQ(
          differs(Tensor::ones(dims(shape), options), counted(dtype, shape, [](const Ints&) { return 1; })),
          "");
      EXPECT_EQ(differs(Tensor::full(dims(shape), 1, options),
                        counted(dtype, shape, [](const Ints&) { return 1; })),
                "");
      const Tensor x = Tensor::empty(dims(shape), options);
      EXPECT_EQ(array_of(x).shape, shape);
      EXPECT_EQ(differs(x.zeros_like(), counted(dtype, shape, [](const Ints&) { return 0; })), "");
      EXPECT_EQ(differs(x.ones_like(), counted(dtype, shape, [](const Ints&) { return 1; })), "");
      EXPECT_EQ(differs(x.full_like(1), counted(dtype, shape, [](const Ints&) { return 1; })), "");
      EXPECT_EQ(array_of(x.empty_like()).shape, shape);
      EXPECT_EQ(x.full_like(1, {.dtype = int64}).dtype(), int64);
      EXPECT_EQ(array_of(x.clone()).shape, shape);
    }
  EXPECT_EQ(Tensor::full({2}, 3).dtype(), int32);
  EXPECT_EQ(Tensor::full({2}, 2.5).dtype(), float32);
  EXPECT_EQ(Tensor::full({2}, true).dtype(), dtypes::bool_);
  EXPECT_EQ(differs(Tensor::full({2, 2}, Tensor::from(std::vector<float>{1, 2})),
                    counted(float32, {2, 2}, [](const Ints& i) { return i[1] + 1; })),
            "");
}

TEST(Making, Ranges) {
  auto range = [](double start, double step, int64_t n) {
    return counted(int32, {n}, [=](const Ints& i) { return start + step * static_cast<double>(i[0]); });
  };
  EXPECT_EQ(differs(Tensor::arange(5), range(0, 1, 5)), "");
  EXPECT_EQ(differs(Tensor::arange(2, 9), range(2, 1, 7)), "");
  EXPECT_EQ(differs(Tensor::arange(2, 9, 3), range(2, 3, 3)), "");
  EXPECT_EQ(differs(Tensor::arange(5, 0, -2), range(5, -2, 3)), "");
  EXPECT_EQ(differs(Tensor::arange(5, 0), range(0, 0, 0)), "");
  EXPECT_EQ(differs(Tensor::arange(0), range(0, 0, 0)), "");
  EXPECT_EQ(differs(Tensor::arange(700), range(0, 1, 700)), "");
  EXPECT_EQ(differs(Tensor::arange(0, 1, 0.25), with_dtype(range(0, 0.25, 4), float32)), "");
  EXPECT_EQ(differs(Tensor::arange(1, 0.1, -0.3), with_dtype(range(1, -0.3, 3), float32), {2}), "");
  for (const DType dtype : kNumbers)
    EXPECT_EQ(differs(Tensor::arange(1, 9, 2, {.dtype = dtype}), with_dtype(range(1, 2, 4), dtype)), "")
        << dtype.name();
  EXPECT_EQ(differs(Tensor::arange(3e9, 3e9 + 3, 1, {.dtype = int64}), with_dtype(range(3e9, 1, 3), int64)),
            "");
  EXPECT_EQ(differs(Tensor::linspace(-1, 1, 5), with_dtype(range(-1, 0.5, 5), float32)), "");
  EXPECT_EQ(differs(Tensor::linspace(3, 0, 4), with_dtype(range(3, -1, 4), float32)), "");
  EXPECT_EQ(differs(Tensor::linspace(3, 9, 1), with_dtype(range(3, 0, 1), float32)), "");
  EXPECT_EQ(differs(Tensor::linspace(3, 9, 0), with_dtype(range(3, 0, 0), float32)), "");
  EXPECT_EQ(
      differs(Tensor::linspace(0, 1, 11, {.dtype = float64}), with_dtype(range(0, 0.1, 11), float64), {2}),
      "");
  EXPECT_EQ(differs(Tensor::from_dim(Dim(7)), Array(int32, {}, {7})), "");
}

TEST(Making, UnitMatricesAndClasses) {
  for (const auto& [n, m] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 3}, {2, 4}, {4, 2}, {1, 1}, {0, 2}, {2, 0}})
    for (const DType dtype : kAll)
      EXPECT_EQ(differs(Tensor::eye(n, m, {.dtype = dtype}),
                        counted(dtype, {n, m}, [](const Ints& i) { return i[0] == i[1] ? 1 : 0; })),
                "");
  EXPECT_EQ(
      differs(Tensor::eye(2), counted(float32, {2, 2}, [](const Ints& i) { return i[0] == i[1] ? 1 : 0; })),
      "");
  for (const DType dtype : kInts) {
    const Array x(dtype, {2, 2}, {0, 3, 2, 5});
    auto hot = [&](int64_t n) {
      return counted(int32, {2, 2, n},
                     [&](const Ints& i) { return x({i[0], i[1]}) == static_cast<Number>(i[2]) ? 1 : 0; });
    };
    EXPECT_EQ(differs(tensor_of(x).one_hot(4), hot(4)), "") << "a class beyond has no place";
    EXPECT_EQ(differs(tensor_of(x).one_hot(), hot(6)), "");
    EXPECT_EQ(
        differs(tensor_of(x).T().one_hot(4),
                counted(int32, {2, 2, 4},
                        [&](const Ints& i) { return x({i[1], i[0]}) == static_cast<Number>(i[2]) ? 1 : 0; })),
        "");
  }
  EXPECT_EQ(array_of(Tensor::zeros({0}, {.dtype = int64}).one_hot(3)).shape, (Ints{0, 3}));
}

TEST(Making, FromMemory) {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  const Tensor copied = Tensor::from(values, Shape{2, 3});
  const Array want = counted(float32, {2, 3}, [](const Ints& i) { return i[0] * 3 + i[1] + 1; });
  EXPECT_EQ(differs(copied, want), "");
  if (Device::get(default_device()).is_host_memory()) {  // others cannot use it in place
    const Tensor blob = Tensor::from_blob(values.data(), {2, 3}, float32, nullptr);
    EXPECT_EQ(differs(blob, want), "");
    EXPECT_EQ(differs(blob.T().contiguous(), swapped(want, 0, 1)), "");
  }
  EXPECT_EQ(differs(Tensor::from_bytes(values.data(), 24, {6}, float32), reshaped(want, {6})), "");
  EXPECT_EQ(Tensor::from(std::vector<float>{}).bytes().size(), 0U);
  EXPECT_EQ(Tensor::from(std::vector<int8_t>{1, 0, 2}, {}, {.dtype = float64}).to_vector<double>(),
            (std::vector<double>{1, 0, 2}));
  const std::string path = std::filesystem::temp_directory_path() / ("quern_ops_" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(values.data()), 24);
  EXPECT_EQ(differs(Tensor::from_file(path, Shape{2, 3}, float32), want), "");
  EXPECT_EQ(array_of(Tensor::from_file(path)).shape, (Ints{24}));
  std::filesystem::remove(path);
}

// ---- Random numbers: the same from the same seed, others from others; ranges, means and spreads.

struct Moments {
  Number mean, deviation, least, most;
};
Moments moments(const Tensor& x) {
  const Array a = array_of(x);
  Moments m{0, 0, a.at[0], a.at[0]};
  for (const Number n : a.at) m.mean += n, m.least = std::min(m.least, n), m.most = std::max(m.most, n);
  m.mean /= static_cast<Number>(a.at.size());
  for (const Number n : a.at) m.deviation += (n - m.mean) * (n - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<Number>(a.at.size()));
  return m;
}

TEST(Chance, SeedsAndShapes) {
  const std::vector<std::function<Tensor()>> makers = {
      [] { return Tensor::rand({3, 5}); },
      [] { return Tensor::randn({3, 5}); },
      [] { return Tensor::randint({3, 5}, -3, 9); },
      [] { return Tensor::uniform({3, 5}, 2, 3); },
      [] { return Tensor::normal({3, 5}, 1, 2); },
      [] { return Tensor::scaled_uniform({3, 5}); },
      [] { return Tensor::glorot_uniform({3, 5}); },
      [] { return Tensor::kaiming_uniform({3, 5}); },
      [] { return Tensor::kaiming_normal({3, 5}); },
      [] { return Tensor::random_bits({3, 5}); },
      [] { return Tensor::randperm(15).reshape({3, 5}); },
      [] { return Tensor::zeros({3, 5}).rand_like(); },
      [] { return Tensor::zeros({3, 5}).randn_like(); },
      [] { return Tensor::ones({3, 5}).dropout(0.4, true); },
      [] { return Tensor::ones({3, 9}).multinomial(5, true); },
  };
  for (size_t i = 0; i < makers.size(); i++) {
    Tensor::manual_seed(7);
    const Array first = array_of(makers[i]()), second = array_of(makers[i]());
    Tensor::manual_seed(7);
    EXPECT_EQ(difference(array_of(makers[i]()), first, {}), "") << i;
    EXPECT_EQ(first.shape, (Ints{3, 5})) << i;
    EXPECT_NE(difference(second, first, {}), "") << i;
    Tensor::manual_seed(8);
    EXPECT_NE(difference(array_of(makers[i]()), first, {}), "") << i;
  }
  for (const DType dtype : kFloats) {
    EXPECT_EQ(Tensor::rand({0, 2}, {.dtype = dtype}).bytes().size(), 0U);
    EXPECT_LT(moments(Tensor::rand({2000}, {.dtype = dtype})).most, 1) << dtype.name();
    EXPECT_EQ(array_of(Tensor::randn({}, {.dtype = dtype})).dtype, dtype);
  }
}

TEST(Chance, Distributions) {
  Tensor::manual_seed(3);
  auto expect = [](const char* what, const Tensor& x, double mean, double deviation, double low,
                   double high) {
    const Moments m = moments(x);
    EXPECT_NEAR(static_cast<double>(m.mean), mean, 0.06 * deviation) << what;
    EXPECT_NEAR(static_cast<double>(m.deviation), deviation, 0.06 * deviation) << what;
    EXPECT_GE(m.least, low) << what;
    EXPECT_LE(m.most, high) << what;
  };
  const double third = 1 / std::sqrt(12.0), root = std::sqrt(3.0);
  expect("rand", Tensor::rand({5000}), 0.5, third, 0, 1);
  expect("rand float64", Tensor::rand({5000}, {.dtype = float64}), 0.5, third, 0, 1);
  expect("rand_like", Tensor::zeros({5000}, {.dtype = dtypes::float16}).rand_like(), 0.5, third, 0, 1);
  expect("randn", Tensor::randn({5000}), 0, 1, -6, 6);
  expect("randn_like", Tensor::zeros({5000}).randn_like(), 0, 1, -6, 6);
  expect("normal", Tensor::normal({5000}, 3, 2), 3, 2, -9, 15);
  expect("uniform", Tensor::uniform({5000}, -1, 3), 1, 4 * third, -1, 3);
  expect("randint", Tensor::randint({5000}, -4, 5), 0, std::sqrt(80 / 12.0), -4, 4);
  expect("scaled_uniform", Tensor::scaled_uniform({50, 100}), 0, 1 / root / std::sqrt(5000), -0.0142, 0.0142);
  expect("glorot_uniform", Tensor::glorot_uniform({50, 100}), 0, std::sqrt(6 / 150.0) / root, -0.2, 0.2);
  expect("kaiming_uniform", Tensor::kaiming_uniform({50, 100}, 0), 0, std::sqrt(2 / 100.0), -0.245, 0.245);
  expect("kaiming_normal", Tensor::kaiming_normal({50, 100}, 0), 0, std::sqrt(2 / 100.0), -1, 1);
  expect("dropout", Tensor::ones({5000}).dropout(0.2, true), 1, 0.5, 0, 1.25);
  EXPECT_EQ(array_of(Tensor::ones({50}).dropout(0.2, false)).at, Numbers(50, 1));
  EXPECT_EQ(array_of(Tensor::ones({50}).dropout(1, true)).at, Numbers(50, 0));
  EXPECT_EQ(array_of(Tensor::ones({50}).dropout(0, true)).at, Numbers(50, 1));
  const Array bits = array_of(Tensor::random_bits({4000}, {.dtype = dtypes::uint64}));
  EXPECT_EQ(std::set<Number>(bits.at.begin(), bits.at.end()).size(), 4000U);
}

TEST(Chance, PermutationsAndSamples) {
  Tensor::manual_seed(5);
  for (const int64_t n : {0, 1, 7, 600}) {
    Array p = array_of(Tensor::randperm(n));
    std::ranges::sort(p.at);
    for (int64_t i = 0; i < n; i++) EXPECT_EQ(p.at[static_cast<size_t>(i)], static_cast<Number>(i));
  }
  const Tensor weights = Tensor::from(std::vector<float>{0, 1, 3, 0});
  const Array drawn = array_of(weights.multinomial(2000, true));
  const auto twos = std::ranges::count(drawn.at, Number{2}), ones = std::ranges::count(drawn.at, Number{1});
  EXPECT_EQ(twos + ones, 2000);
  EXPECT_NEAR(static_cast<double>(twos), 1500, 80);
  for (int i = 0; i < 20; i++) {
    Array two = array_of(weights.multinomial(2));
    std::ranges::sort(two.at);
    EXPECT_EQ(two.at, (Numbers{1, 2})) << "without replacement, and never one of weight 0";
  }
}

// What was dropped gets no gradient, the rest is scaled.
TEST(Chance, GradientOfDropout) {
  const Tensor x = Tensor::ones({64}), y = x.clone().realize(), kept = y.dropout(0.5, true),
               g = kept.sum().gradient({y})[0];
  Tensor::realize_all({kept, g});
  EXPECT_EQ(array_of(g).at, array_of(kept).at);
}

}  // namespace
}  // namespace quern::optest
