// Reductions over axes, of every dtype.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "test/error_of.h"
#include "test/ops/row.h"

namespace quern::optest {
namespace {

constexpr Number kInf = std::numeric_limits<Number>::infinity();

Number sum(const Numbers& n) { return std::accumulate(n.begin(), n.end(), Number{0}); }
Number product(const Numbers& n) {
  return std::accumulate(n.begin(), n.end(), Number{1}, std::multiplies<>());
}
Number mean(const Numbers& n) { return sum(n) / static_cast<Number>(n.size()); }
Number variance(const Numbers& n, Number correction = 1) {
  const Number m = mean(n);
  Number squares = 0;
  for (const Number x : n) squares += (x - m) * (x - m);
  return squares / std::max(static_cast<Number>(n.size()) - correction, Number{0});
}
bool any_nan(const Numbers& n) {
  return std::ranges::any_of(n, [](Number x) { return std::isnan(x); });
}
Number most(const Numbers& n) { return any_nan(n) ? static_cast<Number>(NAN) : *std::ranges::max_element(n); }
Number fewest(const Numbers& n) {
  return any_nan(n) ? static_cast<Number>(NAN) : *std::ranges::min_element(n);
}
Number place_of(const Numbers& n,
                Number (*best)(const Numbers&)) {  // the first NaN, or the first of the best
  const Number wanted = best(n);
  for (size_t i = 0; i < n.size(); i++)
    if (n[i] == wanted || std::isnan(n[i])) return static_cast<Number>(i);
  return -1;
}
Number log_sum_exp(const Numbers& n) {
  const Number top = most(n);
  if (std::isnan(top) || std::isinf(top)) return top;
  Number total = 0;
  for (const Number x : n) total += std::exp(x - top);
  return top + std::log(total);
}

using Of = Number (*)(const Numbers&);
using Ours = std::function<Tensor(const Tensor&, const Axes&, bool)>;

struct Reduction {
  std::string name;
  Ours ours;
  Of f;
  Rule result = as_is;
  Types types = kAll;
  bool empty = true;   // it has a value for no elements
  bool wraps = false;  // integers of any size
  bool by = true, twice = false;
  Closeness close = {8, true};
  double low = -2, high = 2;
};

// Over all axes, some, one; with and without the axes of size 1 that are left.
std::vector<Row> rows_of(const Reduction& r) {
  std::vector<std::vector<Ints>> shapes = {{{2, 3, 2}}, {{1, 3, 1}}};
  if (r.empty) shapes.push_back({{2, 0, 3}}), shapes.push_back({{0, 3, 0}});
  std::vector<Row> rows;
  const std::pair<Axes, bool> ways[] = {
      {Axes(), false}, {Axes(), true}, {Axes(1), false}, {Axes{0, -1}, true}};
  for (const auto& [axes, keepdim] : ways)
    rows.push_back(
        {.name = r.name,
         .ours = [=, f = r.ours, a = axes, k = keepdim](const Tensors& x) { return f(x[0], a, k); },
         .reference =
             [=, a = axes, k = keepdim](const Arrays& x) {
               Array out = reduced(x[0], a, k, r.f);
               out.dtype = r.result(x[0].dtype);
               return out;
             },
         .inputs = {{r.low, r.high}},
         .shapes = shapes,
         .types = r.types,
         .close = r.close,
         .narrow = 1,
         .by = r.by ? std::vector<size_t>{0} : std::vector<size_t>{},
         .twice = r.twice,
         .wrapping = r.wraps});
  // Of a tensor without axes there is nothing to reduce.
  rows.push_back(rows[0]);
  rows.back().shapes = {{{}}};
  return rows;
}

std::vector<Row> reductions() {
  const Reduction all_of_them[] = {
      {.name = "sum",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.sum(a, k); },
       .f = sum,
       .result = as_sum,
       .twice = true},
      {.name = "prod",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.prod(a, k); },
       .f = product,
       .result = as_sum,
       .twice = true},
      {.name = "mean",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.mean(a, k); },
       .f = mean,
       .result = as_float,
       .twice = true},
      {.name = "max",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.max(a, k); },
       .f = most,
       .empty = false,
       .wraps = true,
       .close = {}},
      {.name = "min",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.min(a, k); },
       .f = fewest,
       .empty = false,
       .wraps = true,
       .close = {}},
      {.name = "any",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.any(a, k); },
       .f = [](const Numbers& n) -> Number {
         return std::ranges::any_of(n, [](Number x) { return x != 0; }) ? 1 : 0;
       },
       .result = as_bool,
       .by = false},
      {.name = "all",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.all(a, k); },
       .f = [](const Numbers& n) -> Number {
         return std::ranges::all_of(n, [](Number x) { return x != 0; }) ? 1 : 0;
       },
       .result = as_bool,
       .by = false},
      {.name = "var",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.var(a, k); },
       .f = [](const Numbers& n) { return variance(n); },
       .result = as_float,
       .twice = true},
      {.name = "var 0",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.var(a, k, 0); },
       .f = [](const Numbers& n) { return variance(n, 0); },
       .result = as_float,
       .twice = true},
      {.name = "std",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.std(a, k); },
       .f = [](const Numbers& n) { return std::sqrt(variance(n)); },
       .result = as_float},
      {.name = "var_mean",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.var_mean(a, k).second; },
       .f = mean,
       .result = as_float,
       .close = {8, true, false, 1}},  // one of the values is taken off and added: its unit counts
      {.name = "var_mean, the first",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.var_mean(a, k).first; },
       .f = [](const Numbers& n) { return variance(n); },
       .result = as_float},
      {.name = "std_mean",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.std_mean(a, k).second; },
       .f = mean,
       .result = as_float},
      {.name = "std_mean, the first",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.std_mean(a, k, 0).first; },
       .f = [](const Numbers& n) { return std::sqrt(variance(n, 0)); },
       .result = as_float,
       .by = false},
      {.name = "logsumexp",
       .ours = [](const Tensor& x, const Axes& a, bool k) { return x.logsumexp(a, k); },
       .f = log_sum_exp,
       .result = as_float,
       .empty = false,
       .twice = true},
  };
  std::vector<Row> rows;
  for (const Reduction& r : all_of_them)
    for (Row& row : rows_of(r)) {
      // One element has no variance of its own: 0 / 0, and no slope to compare with.
      const bool spread = r.name.starts_with("var") || r.name.starts_with("std");
      if (spread && row.shapes[0] == std::vector<Ints>{{}}) row.by = {};
      if (spread) std::erase_if(row.shapes, [](const auto& s) { return s[0] == Ints{1, 3, 1}; });
      rows.push_back(row);
    }
  return rows;
}

TEST(Reduce, Values) { expect_all(reductions()); }
TEST(Reduce, Gradients) {
  for (Row row : reductions()) {
    std::erase_if(row.shapes, [](const auto& s) { return count(s[0]) == 0; });
    if (!row.shapes.empty()) expect_gradients(row);
  }
}

// Integers of any size wrap in the type of the sum.
TEST(Reduce, IntegersWrap) {
  std::mt19937_64 random = generator("wrap");
  for (const DType dtype : kInts) {
    const Array a = random_array(random, dtype, {3, 20}, {}, true);
    for (const bool times : {false, true}) {
      const DType out = as_sum(dtype);
      Array want(out, {3});
      for (int64_t i = 0; i < 3; i++) {
        want({i}) = times ? 1 : 0;
        for (int64_t j = 0; j < 20; j++) {
          const auto x = static_cast<Whole>(want({i})), y = static_cast<Whole>(a({i, j}));
          want({i}) = wrapped(out, times ? wrapped_product(x, y) : x + y);
        }
      }
      const Tensor x = tensor_of(a);
      EXPECT_EQ(difference(array_of(times ? x.prod(1) : x.sum(1)), want, {}), "") << dtype.name() << times;
    }
    EXPECT_EQ(tensor_of(a).sum(1, false, dtypes::float64).dtype(), dtypes::float64);
    EXPECT_EQ(tensor_of(a).prod({}, false, dtype).dtype(), dtype);
  }
}

// ---- Places of extremes: the first of equals, NaN before all.

std::vector<Row> places() {
  std::vector<Row> rows;
  for (const bool greatest_one : {true, false}) {
    const Of best = greatest_one ? most : fewest;
    auto ours = [=](const Tensor& x, std::optional<int64_t> axis, bool k) {
      return greatest_one ? x.argmax(axis, k) : x.argmin(axis, k);
    };
    auto add = [&](std::optional<int64_t> axis, bool keepdim, const std::vector<std::vector<Ints>>& shapes) {
      rows.push_back({.name = greatest_one ? "argmax" : "argmin",
                      .ours = [=](const Tensors& x) { return ours(x[0], axis, keepdim); },
                      .reference =
                          [=](const Arrays& a) {
                            return with_dtype(reduced(a[0], axis ? Axes(*axis) : Axes(), keepdim,
                                                      [=](const Numbers& n) { return place_of(n, best); }),
                                              dtypes::int32);
                          },
                      .inputs = {{-2, 2}},
                      .shapes = shapes,
                      .types = kAll});
    };
    add(-1, false, {{{3, 6}}, {{6}}, {{2, 1}}});
    add(0, true, {{{3, 6}}, {{1, 6}}});
    add({}, false, {{{3, 6}}, {{}}, {{1, 1}}});
    add({}, true, {{{2, 3}}});
  }
  return rows;
}
TEST(Places, Values) { expect_all(places()); }

TEST(Places, TiesAndNaN) {
  auto of = [](const std::vector<double>& n) { return Tensor::from(n); };
  EXPECT_EQ(of({1, 3, 3, 0, 0}).argmax().item<int>(), 1);
  EXPECT_EQ(of({1, 3, 3, 0, 0}).argmin().item<int>(), 3);
  EXPECT_EQ(of({1, NAN, 3, NAN}).argmax().item<int>(), 1);
  EXPECT_EQ(of({1, NAN, 3, NAN}).argmin().item<int>(), 1);
  EXPECT_EQ(of({NAN, NAN}).argmax().item<int>(), 0);
  EXPECT_EQ(of({-static_cast<double>(kInf), -static_cast<double>(kInf)}).argmax().item<int>(), 0);
  EXPECT_TRUE(std::isnan(of({1, NAN}).max().item<double>()));
  EXPECT_TRUE(std::isnan(of({NAN, 1}).min().item<double>()));
  EXPECT_TRUE(of({0, NAN}).any().item<bool>());
  EXPECT_TRUE(of({1, NAN}).all().item<bool>());
}

// Equal parts of the gradient to equals; a bound of clamp() is no value.
TEST(Places, GradientsOfTies) {
  const Tensor x = Tensor::from(std::vector<float>{1, 3, 3, 0, 3, 0});
  auto slope = [&](const Tensor& y) { return y.gradient({x})[0].to_vector<float>(); };
  using Floats = std::vector<float>;
  EXPECT_EQ(slope(x.max() * 6), (Floats{0, 2, 2, 0, 2, 0}));
  EXPECT_EQ(slope(x.min() * 6), (Floats{0, 0, 0, 3, 0, 3}));
  EXPECT_EQ(slope(x.maximum(1).sum()), (Floats{0.5, 1, 1, 0, 1, 0}));
  EXPECT_EQ(slope(x.clamp(1, 3).sum()), (Floats{1, 1, 1, 0, 1, 0}));
  EXPECT_EQ(slope(x.abs().sum()), (Floats{1, 1, 1, 0, 1, 0}));
  EXPECT_EQ(slope(x.relu().sum()), (Floats{1, 1, 1, 0, 1, 0}));
}

// ---- Of no elements

TEST(Reduce, OfNothing) {
  const Tensor x = Tensor::zeros({0, 2}), i = Tensor::zeros({0}, {.dtype = dtypes::int8});
  EXPECT_EQ(array_of(x.sum(0)).at, (Numbers{0, 0}));
  EXPECT_EQ(array_of(i.prod()).at, (Numbers{1}));
  EXPECT_FALSE(x.any().item<bool>());
  EXPECT_TRUE(x.all().item<bool>());
  EXPECT_TRUE(std::isnan(x.mean().item<float>()));
  EXPECT_TRUE(std::isnan(x.var().item<float>()));
  EXPECT_EQ(array_of(x.sum(1)).shape, (Ints{0}));
  for (const auto& f :
       std::vector<std::function<Tensor()>>{[&] { return x.max(); }, [&] { return x.min(0); },
                                            [&] { return x.argmax(0); }, [&] { return i.argmin(); }}) {
    EXPECT_THAT(error_of<ShapeError>(f), ::testing::HasSubstr("is empty: there is no value"));
  }
  EXPECT_EQ(array_of(x.logsumexp(0)).at, (Numbers{-kInf, -kInf}));
  EXPECT_EQ(array_of(x.max(1)).shape, (Ints{0}));
  EXPECT_EQ(array_of(x.argmax(1)).shape, (Ints{0}));
}

}  // namespace
}  // namespace quern::optest
