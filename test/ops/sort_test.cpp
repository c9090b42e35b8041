// Sorting: equal elements keep their order, NaN is the greatest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

using dtypes::int32;

Array first_of(const Array& a, int64_t axis, int64_t n) {
  return along(a, axis, [=](const Numbers& line) { return Numbers(line.begin(), line.begin() + n); });
}

Arrays sorted_lines(const Array& a, int64_t axis, bool descending) {
  auto order = [&](const Numbers& line) {
    std::vector<size_t> places(line.size());
    std::iota(places.begin(), places.end(), size_t{0});
    auto less = [&](size_t i, size_t j) {
      if (std::isnan(line[i]) || std::isnan(line[j])) return !std::isnan(line[i]) && std::isnan(line[j]);
      return line[i] < line[j];
    };
    std::ranges::stable_sort(places,
                             [&](size_t i, size_t j) { return descending ? less(j, i) : less(i, j); });
    return places;
  };
  const Array values = along(a, axis, [&](const Numbers& line) {
    Numbers result;
    for (const size_t p : order(line)) result.push_back(line[p]);
    return result;
  });
  const Array places = along(a, axis, [&](const Numbers& line) {
    const auto p = order(line);
    return Numbers(p.begin(), p.end());
  });
  return {values, with_dtype(places, int32)};
}

std::vector<Row> sorts() {
  const std::vector<std::vector<Ints>> shapes = {{{3, 5}}, {{5}}, {{2, 5, 2}}, {{1}}, {{0}}, {{2, 0}}};
  auto both = [](const std::pair<Tensor, Tensor>& p) { return Tensors{p.first, p.second}; };
  return {
      moving(
          "sort", [=](const Tensors& x) { return both(x[0].sort()); },
          [](const Arrays& a) { return sorted_lines(a[0], -1, false); }, shapes),
      moving(
          "sort descending", [=](const Tensors& x) { return both(x[0].sort(0, true)); },
          [](const Arrays& a) { return sorted_lines(a[0], 0, true); }, shapes),
      moving(
          "argsort", [](const Tensors& x) { return x[0].argsort(0); },
          [](const Arrays& a) { return sorted_lines(a[0], 0, false)[1]; }, shapes),
      moving(
          "topk", [=](const Tensors& x) { return both(x[0].topk(2)); },
          [](const Arrays& a) {
            Arrays s = sorted_lines(a[0], -1, true);
            for (Array& x : s) x = first_of(x, -1, 2);
            return s;
          },
          {{{3, 5}}, {{2}}}),
      moving(
          "topk of the least", [=](const Tensors& x) { return both(x[0].topk(1, 0, false)); },
          [](const Arrays& a) {
            Arrays s = sorted_lines(a[0], 0, false);
            for (Array& x : s) x = first_of(x, 0, 1);
            return s;
          },
          {{{3, 5}}, {{2}}}),
  };
}

TEST(Sorts, Values) { expect_all(sorts()); }
TEST(Sorts, Gradients) {
  std::vector<Row> rows = sorts();
  rows.erase(rows.begin() + 2);  // argsort has none
  expect_all_gradients(rows);
}

// Ties, NaN and infinities, by counting and digit by digit.
TEST(Sorts, TiesAndNaN) {
  std::mt19937_64 random = generator("ties");
  const Number inf = std::numeric_limits<Number>::infinity();
  const Number values[] = {0, 1, 2, -1, inf, -inf, std::nanl("")};
  for (const int64_t n : {7, 40, 600})
    for (const bool descending : {false, true}) {
      Array a(dtypes::float32, {n});
      for (Number& x : a.at) x = values[random() % 7];
      const auto [sorted, places] = tensor_of(a).sort(0, descending);
      const Arrays want = sorted_lines(a, 0, descending);
      EXPECT_EQ(difference(array_of(sorted), want[0], {}), "") << n;
      EXPECT_EQ(difference(array_of(places), want[1], {}), "") << n;
    }
}

TEST(Sorts, UniqueElements) {
  const Tensor x = Tensor::from<float>({2, 0.5, -0.0F, 2, 0, 2}, Shape{2, 3});
  EXPECT_EQ(x.unique().values.to_vector<float>(), (std::vector<float>{0, 0.5, 2}));
  EXPECT_EQ(x.unique().inverse.to_vector<int32_t>(), (std::vector<int32_t>{2, 1, 0, 2, 0, 2}));
  EXPECT_EQ(x.unique().counts.to_vector<int32_t>(), (std::vector<int32_t>{2, 1, 3}));
  EXPECT_EQ(Tensor::zeros({0}).unique().values.numel(), Dim(0));
}

TEST(Sorts, PlacesInSorted) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from<float>({-1, 0, 0, 3, nan}), v = Tensor::from<float>({0, -2, 9, nan});
  EXPECT_EQ(x.searchsorted(v).to_vector<int32_t>(), (std::vector<int32_t>{1, 0, 4, 4}));
  EXPECT_EQ(x.searchsorted(v, true).to_vector<int32_t>(), (std::vector<int32_t>{3, 0, 4, 5}));
  const Tensor rows = Tensor::from<int64_t>({1, 2, 10, 20}, Shape{2, 2});
  EXPECT_EQ(rows.searchsorted(Tensor::from<int64_t>({2, 2}, Shape{2, 1})).to_vector<int32_t>(),
            (std::vector<int32_t>{1, 0}));
  EXPECT_THROW(rows.searchsorted(v), ShapeError);
}

}  // namespace
}  // namespace quern::optest
