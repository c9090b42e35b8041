// Making, moving, indexing, sorting: what is where.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "quern/base/env.h"
#include "quern/tensor/core/support.h"
#include "test/tensor/values.h"

namespace quern {
namespace {

TEST(Making, Constants) {
  EXPECT_EQ(values(Tensor::full({2, 2}, 3)), (List{3, 3, 3, 3}));
  EXPECT_EQ(values(Tensor::arange(5)), (List{0, 1, 2, 3, 4}));
  EXPECT_EQ(Tensor::arange(5).dtype(), dtypes::int32);
  EXPECT_EQ(values(Tensor::arange(2, 12, 3)), (List{2, 5, 8, 11}));
  EXPECT_EQ(values(Tensor::arange(5, 0, -2)), (List{5, 3, 1}));
  EXPECT_EQ(values(Tensor::arange(0, 1, 0.25)), (List{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(shape(Tensor::arange(3, 3)), "(0,)");
  EXPECT_EQ(values(Tensor::linspace(0, 1, 5)), (List{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(values(Tensor::eye(2, 3)), (List{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(values(Tensor::eye(3, 2)), (List{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(values(counted({3, 3}).tril()), (List{0, 0, 0, 3, 4, 0, 6, 7, 8}));
  EXPECT_EQ(values(counted({3, 3}).triu(1)), (List{0, 1, 2, 0, 0, 5, 0, 0, 0}));
  EXPECT_EQ(values(counted({2}).diag()), (List{0, 0, 0, 1}));
  EXPECT_EQ(values(counted({3, 3}).diag()), (List{0, 4, 8}));
  EXPECT_EQ(values(input({3}, {0, 2, 1}, dtypes::int32).one_hot(3)), (List{1, 0, 0, 0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(values(input({2}, {0, 2}, dtypes::int32).one_hot()), (List{1, 0, 0, 0, 0, 1}));
  const auto grid = Tensor::meshgrid({counted({2}), counted({3})});
  EXPECT_EQ(values(grid[0]), (List{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(values(grid[1]), (List{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(shape(Tensor::meshgrid({counted({2}), counted({3})}, "xy")[0]), "(3, 2)");
}

TEST(Making, DefaultsAreThoseOfTheEnvironmentUntilTheyAreSet) {
  {
    const env::Override floats("DEFAULT_FLOAT", "HALF"), ints("DEFAULT_INT", "int64");
    EXPECT_EQ(Tensor::zeros({2}).dtype(), dtypes::float16);
    EXPECT_EQ(Tensor::arange(3).dtype(), dtypes::int64);
    set_default_float(dtypes::bfloat16);
    EXPECT_EQ(Tensor::ones({2}).dtype(), dtypes::bfloat16);
  }
  EXPECT_EQ(Tensor::zeros({2}).dtype(), dtypes::float32);
  EXPECT_EQ(Tensor::arange(3).dtype(), dtypes::int32);
}

TEST(Making, RandomNumbersDependOnTheSeedAlone) {
  Tensor::manual_seed(7);
  const List a = values(Tensor::rand({100})), b = values(Tensor::rand({100}));
  Tensor::manual_seed(7);
  EXPECT_EQ(values(Tensor::rand({100})), a);
  EXPECT_NE(a, b);
  double sum = 0;
  for (const double v : values(Tensor::rand({1000}))) {
    EXPECT_TRUE(v >= 0 && v < 1);
    sum += v;
  }
  EXPECT_NEAR(sum / 1000, 0.5, 0.05);
  for (const double v : values(Tensor::randint({200}, -3, 4)))
    EXPECT_TRUE(v >= -3 && v < 4 && v == std::floor(v));
  List p = values(Tensor::randperm(20));
  std::ranges::sort(p);
  EXPECT_EQ(p, values(Tensor::arange(20)));
  double squares = 0;
  for (const double v : values(Tensor::randn({1000}))) squares += v * v;
  EXPECT_NEAR(squares / 1000, 1, 0.15);
  for (const double v : values(input({3}, {0, 1, 0}).multinomial(20, true))) EXPECT_EQ(v, 1);
  List drawn = values(input({4}, {1, 2, 0, 1}).multinomial(3));
  std::ranges::sort(drawn);
  EXPECT_EQ(drawn, (List{0, 1, 3}));
}

TEST(Views, MoveValues) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(values(x.T()), (List{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(shape(x.reshape({3, -1})), "(3, 2)");
  EXPECT_EQ(shape(x.unflatten(1, {3, -1})), "(2, 3, 1)");
  EXPECT_EQ(shape(x.unsqueeze(-1).squeeze()), "(2, 3)");
  EXPECT_EQ(values(x.flip(1)), (List{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(values(x.roll(1, 1)), (List{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(values(x.roll(-1)), (List{1, 2, 3, 4, 5, 0}));
  EXPECT_EQ(values(counted({2}).repeat({2, 2})), (List{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(values(counted({2}).repeat_interleave(2)), (List{0, 0, 1, 1}));
  EXPECT_EQ(values(Tensor::cat({x, x + 10}, 1)), (List{0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15}));
  EXPECT_EQ(values(Tensor::cat({counted({1}), counted({0}), counted({2}) + 5})), (List{0, 5, 6}));
  EXPECT_TRUE(std::signbit(values(Tensor::cat({input({1}, {-0.0}), counted({1})}))[0]));
  EXPECT_EQ(values(Tensor::stack({counted({2}), counted({2}) + 5}, 1)), (List{0, 5, 1, 6}));
  EXPECT_EQ(values(x.split({1, 2}, 1)[1]), (List{1, 2, 4, 5}));
  EXPECT_EQ(x.chunk(2, 1).size(), 2u);
  EXPECT_EQ(values(counted({5}).unfold(0, 3, 2)), (List{0, 1, 2, 2, 3, 4}));
  EXPECT_EQ(values(counted({2, 4}).unfold(1, 2, 1).at({1, 2})), (List{6, 7}));
  EXPECT_EQ(shape(counted({5, 2}).unfold(0, 3, 1)), "(3, 2, 3)");
  EXPECT_EQ(values(x.diagonal(1)), (List{1, 5}));
  EXPECT_EQ(values(x.diagonal(-1)), (List{3}));
  EXPECT_EQ(values(x.diagonal(0, 1, 0)), (List{0, 4}));
  EXPECT_EQ(values(x.rearrange("a b -> b a")), values(x.T()));
  EXPECT_EQ(shape(counted({2, 12}).rearrange("b (h w) -> w b 1 h", {{"h", 3}})), "(4, 2, 1, 3)");
  EXPECT_EQ(values(counted({4}).rearrange("(a b) -> (b a)", {{"a", 2}})), (List{0, 2, 1, 3}));
  EXPECT_EQ(shape(counted({2, 3, 4}).rearrange("... c -> c ...")), "(4, 2, 3)");
}

TEST(Views, Padding) {
  const Tensor x = counted({3}) + 1;
  EXPECT_EQ(values(x.pad({1, 2})), (List{0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(values(x.pad({1, 1}, "constant", 9)), (List{9, 1, 2, 3, 9}));
  EXPECT_EQ(values(x.pad({2, 1}, "reflect")), (List{3, 2, 1, 2, 3, 2}));
  EXPECT_EQ(values(x.pad({2, 1}, "replicate")), (List{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(values(x.pad({2, 1}, "circular")), (List{2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(values(x.pad({-1, 1})), (List{2, 3, 0}));
  EXPECT_EQ(values(x.interpolate({6}, "nearest")), (List{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(values(x.interpolate({5}, "linear", true)), (List{1, 1.5, 2, 2.5, 3}));
  EXPECT_EQ(values((counted({2}) * 4).interpolate({4})), (List{0, 1, 3, 4}));
}

TEST(Indexing, LikePython) {
  const Tensor x = counted({3, 4});
  EXPECT_EQ(values(x.at({1})), (List{4, 5, 6, 7}));
  EXPECT_EQ(values(x(-1, -1)), (List{11}));
  EXPECT_EQ(values(x(everything, Slice{1, 3})), (List{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(values(x(0, Slice{{}, {}, 2})), (List{0, 2}));
  EXPECT_EQ(values(x(0, Slice{{}, {}, 3})), (List{0, 3}));
  EXPECT_EQ(values(x(0, Slice{{}, {}, -1})), (List{3, 2, 1, 0}));
  EXPECT_EQ(values(x(0, Slice{2, {}, -2})), (List{2, 0}));
  EXPECT_EQ(values(x(0, Slice{-1, 0, -2})), (List{3, 1}));
  EXPECT_EQ(shape(x(newaxis, ellipsis, 0)), "(1, 3)");
  EXPECT_EQ(shape(x(Slice{5, 9})), "(0, 4)");
  for (const int64_t step : {1, 2, 3, 4, 5, -1, -2, -3, -7})  // all slices of five elements
    for (int64_t a = -7; a <= 7; a++)
      for (int64_t b = -7; b <= 7; b++) {
        List want;
        auto clip = [&](int64_t v) {
          return v < 0 ? std::max<int64_t>(v + 5, step < 0 ? -1 : 0) : std::min<int64_t>(v, step < 0 ? 4 : 5);
        };
        for (int64_t i = clip(a); step > 0 ? i < clip(b) : i > clip(b); i += step)
          want.push_back(static_cast<double>(i));
        ASSERT_EQ(values(counted({5}).at({Slice{a, b, step}})), want) << a << ":" << b << ":" << step;
      }
}

TEST(Indexing, Tensors) {
  const Tensor x = counted({3, 4});
  const Tensor rows = input({2}, {2, -3}, dtypes::int64), columns = input({2}, {1, 3}, dtypes::int64);
  EXPECT_EQ(values(x(rows)), (List{8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(values(x(everything, columns)), (List{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(values(x(rows, columns)), (List{9, 3}));
  EXPECT_EQ(values(x(rows.unsqueeze(1), columns)), (List{9, 11, 1, 3}));
  EXPECT_EQ(values(x.at({input({1}, {7}, dtypes::int64)})), (List{0, 0, 0, 0}));  // out of range: 0
  EXPECT_EQ(values(x(rows, input({2}, {4, 0}, dtypes::int64))), (List{0, 0}));
  const Tensor y = counted({2, 3, 4});
  EXPECT_EQ(shape(y(everything, input({5, 1}, {0, 1, 2, 0, 1}, dtypes::int64))), "(2, 5, 1, 4)");
  EXPECT_EQ(shape(y(input({5}, {0, 1, 0, 0, 1}, dtypes::int64), everything,
                    input({5}, {0, 1, 2, 0, 1}, dtypes::int64))),
            "(5, 3)");
  EXPECT_EQ(values(x(x.gt(8))), (List{9, 10, 11}));
  EXPECT_EQ(values(x(input({3}, {1, 0, 1}, dtypes::bool_), 1)), (List{1, 9}));
  EXPECT_EQ(values(x.masked_select(x.lt(2))), (List{0, 1}));
  EXPECT_EQ(values(x.masked_fill(x.lt(10), -1).at({2})), (List{-1, -1, 10, 11}));
  EXPECT_EQ(values(input({2, 2}, {0, 3, 4, 0}).nonzero()), (List{0, 1, 1, 0}));
}

TEST(Indexing, GatherAndScatter) {
  const Tensor x = counted({2, 3}), index = input({2, 2}, {2, 0, 1, 1}, dtypes::int64);
  EXPECT_EQ(values(x.gather(1, index)), (List{2, 0, 4, 4}));
  EXPECT_EQ(values(x.gather(0, input({1, 2}, {1, 0}, dtypes::int64))), (List{3, 1}));
  const Tensor source = input({2, 2}, {10, 20, 30, 40});
  EXPECT_EQ(values(x.scatter(1, index, source)), (List{20, 1, 10, 3, 40, 5}));
  EXPECT_EQ(values(x.scatter(1, index, source, "add")), (List{20, 1, 12, 3, 74, 5}));
  EXPECT_EQ(values(x.scatter(1, index, source, "multiply")), (List{0, 1, 20, 3, 4800, 5}));
  EXPECT_EQ(values(x.scatter(1, index, 7)), (List{7, 1, 7, 3, 7, 5}));
  EXPECT_EQ(values(x.scatter_reduce(1, index, source, "sum", false)), (List{20, 1, 10, 3, 70, 5}));
  EXPECT_EQ(values(x.scatter_reduce(1, index, source, "mean", false)), (List{20, 1, 10, 3, 35, 5}));
  EXPECT_EQ(values(x.scatter_reduce(1, index, source, "mean")), (List{10, 1, 6, 3, 74.0f / 3, 5}));
  EXPECT_EQ(values(x.scatter_reduce(1, index, source, "amax")), (List{20, 1, 10, 3, 40, 5}));
  EXPECT_EQ(values(x.scatter_reduce(1, index, source, "amin")), (List{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(x.scatter_reduce(1, index, source, "prod", false)), (List{20, 1, 10, 3, 1200, 5}));
  const Tensor places = input({3}, {2, -3, 2}, dtypes::int64), columns = input({2, 3}, {1, 2, 4, 8, 16, 32});
  EXPECT_EQ(values(x.index_add(1, places, columns)), (List{2, 1, 7, 19, 4, 45}));
  EXPECT_EQ(values(x.index_copy(1, places, columns)), (List{2, 1, 4, 16, 4, 32}));
  EXPECT_EQ(values(x.index_fill(-1, places, 9)), (List{9, 1, 9, 9, 4, 9}));
  EXPECT_EQ(values(input({4}, {1, 3, 1, 0}, dtypes::int32).bincount({}, 5)), (List{1, 2, 0, 1, 0}));
  EXPECT_EQ(values(input({2}, {1, 1}, dtypes::int32).bincount(input({2}, {0.5, 2}))), (List{0, 2.5}));
  EXPECT_EQ(values(x.index_select(1, input({2}, {2, 0}, dtypes::int32))), (List{2, 0, 5, 3}));
}

TEST(Sorting, IsStableAndPutsNanLast) {
  const double nan = std::nan("");
  const Tensor x = input({6}, {3, 1, nan, 1, -2, 3});
  const auto [up, places] = x.sort();
  EXPECT_EQ(values(up.shrink({{{0, 5}}})), (List{-2, 1, 1, 3, 3}));
  EXPECT_TRUE(std::isnan(values(up)[5]));
  EXPECT_EQ(values(places), (List{4, 1, 3, 0, 5, 2}));
  EXPECT_EQ(values(x.argsort(0, true)), (List{2, 0, 5, 1, 3, 4}));
  EXPECT_EQ(values(counted({2, 3}).sort(1, true).first), (List{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(values(counted({2, 3}).topk(2).second), (List{2, 1, 2, 1}));
  EXPECT_EQ(values(counted({2, 3}).sort(0, true).first), (List{3, 4, 5, 0, 1, 2}));
}

TEST(Sorting, LongAxesByANetwork) {
  const Tensor x = (scattered({600}, 3) * 8).trunc();
  List want = values(x);
  std::vector<double> order(600);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](double a, double b) { return want[static_cast<size_t>(a)] < want[static_cast<size_t>(b)]; });
  EXPECT_EQ(values(x.argsort()), order);
  std::ranges::stable_sort(order, [&](double a, double b) {
    const double va = want[static_cast<size_t>(a)], vb = want[static_cast<size_t>(b)];
    return va != vb ? va > vb : a < b;
  });
  EXPECT_EQ(values(x.argsort(0, true)), order);
  std::ranges::sort(want);
  EXPECT_EQ(values(x.sort().first), want);
}

TEST(Views, SymbolicSizes) {
  const Dim n = Variable("n", 1, 8).bind(5);
  const Tensor x = counted({8, 3}).shrink({{{0, n}}, std::nullopt});
  EXPECT_EQ(x.size(0).text(), n.text());
  EXPECT_EQ(values(x.sum(0)), (List{30, 35, 40}));
  EXPECT_EQ(values(x.mean(0)), (List{6, 7, 8}));
  EXPECT_EQ(values(x.reshape({detail::product(n, 3)}).max()), (List{14}));
  EXPECT_EQ(values((x + 1).matmul(counted({3, 1})).at({4})), (List{14 + 30}));
  EXPECT_EQ(values(x.softmax(0).sum(0)).size(), 3u);
  EXPECT_EQ(values(x.cumsum(0).at({4})), (List{30, 35, 40}));
  EXPECT_EQ(values(Tensor::cat({x, x}, 0).sum()), (List{210}));
}

}  // namespace
}  // namespace quern
