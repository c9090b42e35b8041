// Along one axis: running sums, and what is normalised.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

Numbers running(const Numbers& line, const std::function<Number(Number, Number)>& f) {
  Numbers out;
  for (const Number x : line) out.push_back(out.empty() ? x : f(out.back(), x));
  return out;
}
Numbers running_places(const Numbers& line,
                       const std::function<bool(Number, Number)>& at_least) {  // the last of equals
  Numbers out;
  size_t best = 0;
  for (size_t i = 0; i < line.size(); i++) {
    if (at_least(line[i], line[best])) best = i;
    out.push_back(static_cast<Number>(best));
  }
  return out;
}
Number log_add(Number a, Number b) {
  const Number top = std::max(a, b);
  return top + std::log(std::exp(a - top) + std::exp(b - top));
}

Row scan(const std::string& name, Function<Tensor> ours, Function<Array> reference, const Types& types) {
  return {.name = name,
          .ours = std::move(ours),
          .reference = std::move(reference),
          .inputs = {{-2, 2}},
          .shapes = {{{3, 4}}, {{1, 1}}, {{0, 2}}, {{2, 3, 2}}},
          .types = types,
          .close = {8, true},
          .narrow = 1,
          .by = {0},
          .twice = true};
}

std::vector<Row> scans() {
  using F = Number (*)(Number, Number);
  auto line = [](int64_t axis, F f, Rule rule) {
    return [=](const Arrays& a) {
      return with_dtype(along(a[0], axis, [&](const Numbers& n) { return running(n, f); }), rule(a[0].dtype));
    };
  };
  const F add = [](Number x, Number y) { return x + y; }, times = [](Number x, Number y) { return x * y; };
  std::vector<Row> rows = {
      scan(
          "cumsum", [](const Tensors& x) { return x[0].cumsum(); }, line(0, add, as_sum), kAll),
      scan(
          "cumsum of the last", [](const Tensors& x) { return x[0].cumsum(-1); }, line(-1, add, as_sum),
          kAll),
      scan(
          "cumprod", [](const Tensors& x) { return x[0].cumprod(1); }, line(1, times, as_sum), kAll),
      scan(
          "logcumsumexp", [](const Tensors& x) { return x[0].logcumsumexp(1); }, line(1, log_add, as_float),
          kAll),
      scan(
          "cummax",
          [](const Tensors& x) {
            const auto [v, p] = x[0].cummax(1);
            return Tensors{v, p};
          },
          [=](const Arrays& a) {
            return Arrays{
                line(
                    1, [](Number x, Number y) { return std::max(x, y); }, as_is)(a),
                with_dtype(along(a[0], 1,
                                 [](const Numbers& n) { return running_places(n, std::greater_equal<>()); }),
                           dtypes::int32)};
          },
          kAll),
      scan(
          "cummin",
          [](const Tensors& x) {
            const auto [v, p] = x[0].cummin(1);
            return Tensors{v, p};
          },
          [=](const Arrays& a) {
            return Arrays{
                line(
                    1, [](Number x, Number y) { return std::min(x, y); }, as_is)(a),
                with_dtype(
                    along(a[0], 1, [](const Numbers& n) { return running_places(n, std::less_equal<>()); }),
                    dtypes::int32)};
          },
          kAll),
  };
  return rows;
}

TEST(Scans, Values) { expect_all(scans()); }
TEST(Scans, Gradients) { expect_all_gradients(scans()); }

// Long axes are cut into blocks, and the blocks of blocks again.
TEST(Scans, LongAxes) {
  std::mt19937_64 random = generator("long");
  for (const int64_t n : {255, 256, 257, 700}) {
    const Array a = random_array(random, dtypes::int64, {2, n}, {-9, 9}),
                f = random_array(random, dtypes::float64, {n}, {});
    const Tensor x = tensor_of(a);
    EXPECT_EQ(difference(array_of(x.cumsum(1)),
                         along(a, 1, [](const Numbers& l) { return running(l, std::plus<>()); }), {}),
              "");
    EXPECT_EQ(difference(array_of(x.cummax(1).first),
                         along(a, 1,
                               [](const Numbers& l) {
                                 return running(l, [](Number p, Number q) { return std::max(p, q); });
                               }),
                         {}),
              "");
    EXPECT_EQ(
        difference(
            array_of(x.cummin(1).second),
            with_dtype(along(a, 1, [](const Numbers& l) { return running_places(l, std::less_equal<>()); }),
                       dtypes::int32),
            {}),
        "");
    EXPECT_EQ(difference(array_of(tensor_of(f).logcumsumexp()),
                         along(f, 0, [](const Numbers& l) { return running(l, log_add); }), {64}),
              "");
    const Tensor y = tensor_of(f);
    Array slope(dtypes::float64, {n});
    for (int64_t i = 0; i < n; i++) slope({i}) = static_cast<Number>(n - i);
    EXPECT_EQ(difference(array_of(y.cumsum().sum().gradient({y})[0]), slope, {}), "");
  }
}

TEST(Scans, InfinitiesAndNaN) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  auto text_of = [](const Tensor& x) {
    std::string s;
    for (const Number v : array_of(x).at)
      s += std::isnan(v) ? "n" : std::isinf(v) ? (v > 0 ? "+" : "-") : "0";
    return s;
  };
  EXPECT_EQ(text_of(Tensor::from(std::vector<double>{1, nan, 2}).cummax().first), "0nn");
  EXPECT_EQ(text_of(Tensor::from(std::vector<double>{-inf, -inf, 0}).logcumsumexp()), "--0");
  EXPECT_EQ(text_of(Tensor::from(std::vector<double>{0, inf, 0}).logcumsumexp()), "0++");
  EXPECT_EQ(text_of(Tensor::from(std::vector<double>{-inf, inf, nan}).logcumsumexp()), "-+n");
  EXPECT_EQ(text_of(Tensor::from(std::vector<double>{inf, -inf}).cumsum()), "+n");
}

// ---- Normalised along an axis

Numbers exponentials(const Numbers& line, Number sign) {
  const Number top = *std::ranges::max_element(line, {}, [&](Number x) { return sign * x; });
  Numbers out;
  Number sum = 0;
  for (const Number x : line) out.push_back(std::exp(sign * (x - top))), sum += out.back();
  for (Number& x : out) x /= sum;
  return out;
}

std::vector<Row> normalised() {
  const std::vector<std::vector<Ints>> shapes = {{{3, 4}}, {{2, 1}}, {{2, 3, 2}}};
  auto row = [&](const std::string& name, Function<Tensor> ours, int64_t axis,
                 const std::function<Numbers(const Numbers&)>& f) {
    Row r = scan(
        name, std::move(ours),
        [=](const Arrays& a) { return with_dtype(along(a[0], axis, f), as_float(a[0].dtype)); }, kAll);
    r.shapes = shapes;
    return r;
  };
  auto norm = [](Number p) {
    return [=](const Numbers& line) {
      Number size = 0;
      for (const Number x : line)
        size = std::isinf(p) ? std::max(size, std::abs(x)) : size + std::pow(std::abs(x), p);
      if (!std::isinf(p)) size = std::pow(size, 1 / p);
      Numbers out = line;
      for (Number& x : out) x /= std::max(size, Number{1e-12L});
      return out;
    };
  };
  const auto logs = [](const Numbers& line) {
    Numbers out = exponentials(line, 1);
    for (Number& x : out) x = std::log(x);
    return out;
  };
  return {
      row(
          "softmax", [](const Tensors& x) { return x[0].softmax(); }, -1,
          [](const Numbers& n) { return exponentials(n, 1); }),
      row(
          "softmax of the first", [](const Tensors& x) { return x[0].softmax(0); }, 0,
          [](const Numbers& n) { return exponentials(n, 1); }),
      row(
          "softmin", [](const Tensors& x) { return x[0].softmin(1); }, 1,
          [](const Numbers& n) { return exponentials(n, -1); }),
      row(
          "log_softmax", [](const Tensors& x) { return x[0].log_softmax(); }, -1, logs),
      row(
          "normalize", [](const Tensors& x) { return x[0].normalize(); }, 1, norm(2)),
      row(
          "normalize 1", [](const Tensors& x) { return x[0].normalize(1, 0); }, 0, norm(1)),
      row(
          "normalize 3", [](const Tensors& x) { return x[0].normalize(3, -1); }, -1, norm(3)),
      row(
          "normalize inf",
          [](const Tensors& x) { return x[0].normalize(std::numeric_limits<double>::infinity(), -1); }, -1,
          norm(std::numeric_limits<Number>::infinity())),
      row(
          "layernorm", [](const Tensors& x) { return x[0].layernorm(); }, -1,
          [](const Numbers& line) {
            const auto n = static_cast<Number>(line.size());
            const Number mean = std::accumulate(line.begin(), line.end(), Number{0}) / n;
            Number squares = 0;
            for (const Number x : line) squares += (x - mean) * (x - mean);
            Numbers out = line;
            for (Number& x : out) x = (x - mean) / std::sqrt(squares / n + 1e-5L);
            return out;
          }),
  };
}

TEST(Normalised, Values) { expect_all(normalised()); }
TEST(Normalised, Gradients) {
  for (Row row : normalised()) {
    // Of one or two elements the result is all but a sign, and its slope bends sharply.
    if (row.name.starts_with("normalize") || row.name == "layernorm") row.shapes = {{{3, 4}}, {{1, 2, 4}}};
    expect_gradients(row);
  }
}

TEST(Normalised, DtypesAndEdges) {
  const Tensor x = Tensor::from(std::vector<int32_t>{1000, 0, -1000});
  EXPECT_EQ(x.softmax().to_vector<float>(), (std::vector<float>{1, 0, 0}));
  EXPECT_EQ(x.softmax(0, dtypes::float64).to_vector<double>(), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(x.log_softmax(0, dtypes::float64).to_vector<double>(), (std::vector<double>{0, -1000, -2000}));
  EXPECT_EQ(Tensor::full({}, 3.0).softmax().item<float>(), 1);
  EXPECT_EQ(Tensor::full({}, 3.0).log_softmax().item<float>(), 0);
  EXPECT_EQ(Tensor::zeros({3}).normalize(2, 0).to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(Tensor::zeros({0, 3}).softmax(1).bytes().size(), 0U);
  EXPECT_EQ(Tensor::zeros({3, 0}).softmax(0).bytes().size(), 0U);
  EXPECT_EQ(Tensor::zeros({2, 0}).softmax(1).bytes().size(), 0U);
  EXPECT_EQ(Tensor::zeros({2, 0}).log_softmax(1).bytes().size(), 0U);
  EXPECT_EQ(Tensor::zeros({2, 0}).layernorm().bytes().size(), 0U);
  EXPECT_EQ(Tensor::zeros({2, 0}).normalize().bytes().size(), 0U);
}

}  // namespace
}  // namespace quern::optest
