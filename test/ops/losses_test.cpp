// Losses and batchnorm, in all their reductions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

Array log_softmax(const Array& x, int64_t axis) {
  return along(x, axis, [](const Numbers& line) {
    const Number top = *std::ranges::max_element(line);
    Number sum = 0;
    for (const Number v : line) sum += std::exp(v - top);
    Numbers out = line;
    for (Number& v : out) v -= top + std::log(sum);
    return out;
  });
}

// The losses of all samples, each with its weight, as one number or as they are.
Array combined(const Array& losses, const std::string& reduction, const Numbers& weights = {}) {
  if (reduction == "none") return losses;
  const Number sum = std::accumulate(losses.at.begin(), losses.at.end(), Number{0});
  const Number all = weights.empty() ? static_cast<Number>(losses.at.size())
                                     : std::accumulate(weights.begin(), weights.end(), Number{0});
  return {losses.dtype, {}, {reduction == "mean" ? sum / all : sum}};
}

// For each place of the other axes: f(its class, all its values along `axis`).
Array of_classes(const Array& x, int64_t axis, const Array& target,
                 const std::function<Number(int64_t, const Numbers&)>& f) {
  Array out(x.dtype, target.shape);
  each(target.shape, [&](const Ints& i) {
    Ints at = i;
    at.insert(at.begin() + axis, 0);
    Numbers line;
    for (int64_t c = 0; c < x.shape[static_cast<size_t>(axis)]; c++) {
      at[static_cast<size_t>(axis)] = c;
      line.push_back(x(at));
    }
    out(i) = f(static_cast<int64_t>(target(i)), line);
  });
  return out;
}
Number mean_of(const Numbers& n) {
  return std::accumulate(n.begin(), n.end(), Number{0}) / static_cast<Number>(n.size());
}
Number smoothed(int64_t c, const Numbers& line, Number smoothing) {
  const Number own = c < 0 || c >= std::ssize(line) ? 0 : line[static_cast<size_t>(c)];
  return -((1 - smoothing) * own + smoothing * mean_of(line));
}

Row loss(const std::string& name, Function<Tensor> ours, Function<Array> reference,
         const std::vector<std::vector<Ints>>& shapes, const std::vector<Input>& inputs,
         const std::vector<size_t>& by = {0}) {
  return {.name = name,
          .ours = std::move(ours),
          .reference = std::move(reference),
          .inputs = inputs,
          .shapes = shapes,
          .types = {dtypes::float32, dtypes::float64, dtypes::float16, dtypes::bfloat16},
          .close = {.ulps = 16, .least = 1},
          .narrow = 2,
          .by = by,
          .twice = true};
}

std::vector<Row> losses() {
  const Input classes{0, 2, dtypes::int64}, logits{-3, 3};
  const std::vector<std::vector<Ints>> batches = {{{4, 3}, {4}}, {{2, 3, 2}, {2, 2}}, {{3}, {}}},
                                       last = {{{4, 3}, {4}}, {{2, 2, 3}, {2, 2}}, {{3}, {}}},
                                       same = {{{4, 3}, {4, 3}}, {{1}, {1}}};
  std::vector<Row> rows;
  for (const std::string reduction : {"mean", "sum", "none"}) {
    const Number smoothing = reduction == "sum" ? 0.3L : 0;
    const auto smooth = static_cast<double>(smoothing);
    rows.push_back(loss(
        "cross_entropy " + reduction,
        [=](const Tensors& x) { return x[0].cross_entropy(x[1], reduction, smooth); },
        [=](const Arrays& a) {
          const int64_t axis = a[0].rank() == 1 ? 0 : 1;
          const Array p = log_softmax(a[0], axis);
          return combined(of_classes(p, axis, a[1],
                                     [=](int64_t c, const Numbers& l) { return smoothed(c, l, smoothing); }),
                          reduction);
        },
        batches, {logits, classes}));
    rows.push_back(loss(
        "cross_entropy of probabilities " + reduction,
        [=](const Tensors& x) { return x[0].cross_entropy(x[1], reduction); },
        [=](const Arrays& a) {
          const Array p = log_softmax(a[0], 1);
          Array products = p;
          for (size_t i = 0; i < p.at.size(); i++) products.at[i] = -p.at[i] * a[1].at[i];
          return combined(
              reduced(products, 1, false,
                      [](const Numbers& n) { return std::accumulate(n.begin(), n.end(), Number{0}); }),
              reduction);
        },
        {{{4, 3}, {4, 3}}}, {logits, {0, 1}}, {0, 1}));
    rows.push_back(loss(
        "sparse_categorical_crossentropy " + reduction,
        [=](const Tensors& x) { return x[0].sparse_categorical_crossentropy(x[1], 1, smooth, reduction); },
        [=](const Arrays& a) {  // class 1 is ignored
          const Array p = log_softmax(a[0], a[0].rank() - 1);
          Numbers weights;
          for (const Number c : a[1].at) weights.push_back(c == 1 ? 0 : 1);
          Array all = of_classes(p, a[0].rank() - 1, a[1], [=](int64_t c, const Numbers& l) {
            return c == 1 ? 0 : smoothed(c, l, smoothing);
          });
          return combined(all, reduction, weights);
        },
        last, {logits, classes}));
    rows.push_back(loss(
        "nll_loss " + reduction, [=](const Tensors& x) { return x[0].nll_loss(x[1], {}, {}, reduction); },
        [=](const Arrays& a) {
          return combined(of_classes(a[0], a[0].rank() == 1 ? 0 : 1, a[1],
                                     [](int64_t c, const Numbers& l) { return -l[static_cast<size_t>(c)]; }),
                          reduction);
        },
        batches, {{-3, -0.1}, classes}));
    rows.push_back(loss(
        "nll_loss, weighted " + reduction,
        [=](const Tensors& x) { return x[0].nll_loss(x[1], x[2], 2, reduction); },
        [=](const Arrays& a) {  // class 2 is ignored
          Numbers weights;
          for (const Number c : a[1].at) weights.push_back(c == 2 ? 0 : a[2].at[static_cast<size_t>(c)]);
          Array all = of_classes(a[0], 1, a[1], [&](int64_t c, const Numbers& l) {
            return c == 2 ? 0 : -l[static_cast<size_t>(c)] * a[2].at[static_cast<size_t>(c)];
          });
          return combined(all, reduction, weights);
        },
        {{{6, 3}, {6}, {3}}}, {{-3, -0.1}, classes, {0.5, 2}}, {0, 2}));
    rows.push_back(loss(
        "binary_crossentropy " + reduction,
        [=](const Tensors& x) { return x[0].binary_crossentropy(x[1], reduction); },
        [=](const Arrays& a) {
          return combined(elementwise(a[0].dtype, a,
                                      [](const Numbers& n) {
                                        return -(n[1] * std::log(n[0]) + (1 - n[1]) * std::log1p(-n[0]));
                                      }),
                          reduction);
        },
        same, {{0.1, 0.9}, {0, 1}}, {0, 1}));
    rows.push_back(loss(
        "binary_crossentropy_logits " + reduction,
        [=](const Tensors& x) { return x[0].binary_crossentropy_logits(x[1], reduction); },
        [=](const Arrays& a) {
          return combined(elementwise(a[0].dtype, a,
                                      [](const Numbers& n) {
                                        return std::max(n[0], Number{0}) - n[0] * n[1] +
                                               std::log1p(std::exp(-std::abs(n[0])));
                                      }),
                          reduction);
        },
        same, {logits, {0, 1}}, {0, 1}));
    rows.push_back(loss(
        "binary_crossentropy_logits, weighted " + reduction,
        [=](const Tensors& x) { return x[0].binary_crossentropy_logits(x[1], reduction, x[2]); },
        [=](const Arrays& a) {
          return combined(elementwise(a[0].dtype, a,
                                      [](const Numbers& n) {
                                        return n[2] * n[1] * std::log1p(std::exp(-n[0])) +
                                               (1 - n[1]) * std::log1p(std::exp(n[0]));
                                      }),
                          reduction);
        },
        {{{4, 3}, {4, 3}, {3}}}, {logits, {0, 1}, {0.5, 2}}, {0, 1, 2}));
  }
  return rows;
}

TEST(Losses, Values) { expect_all(losses()); }
TEST(Losses, Gradients) { expect_all_gradients(losses()); }

// Of no samples the mean is 0 / 0, the sum 0.
TEST(Losses, OfNothing) {
  const Tensor x = Tensor::zeros({0, 3}), classes = Tensor::zeros({0}, {.dtype = dtypes::int64});
  EXPECT_TRUE(std::isnan(x.cross_entropy(classes).item<float>()));
  EXPECT_EQ(x.cross_entropy(classes, "sum").item<float>(), 0);
  EXPECT_EQ(x.nll_loss(classes, {}, {}, "none").bytes().size(), 0U);
  EXPECT_EQ(x.sparse_categorical_crossentropy(classes, -1, 0, "sum").item<float>(), 0);
  EXPECT_EQ(x.binary_crossentropy_logits(x, "sum").item<float>(), 0);
}

// Far from 0 logits neither overflow nor lose their sign.
TEST(Losses, LargeLogits) {
  const Tensor x = Tensor::from(std::vector<float>{1000, -1000}, Shape{1, 2}),
               one = Tensor::from(std::vector<int64_t>{1});
  EXPECT_EQ(x.cross_entropy(one).item<float>(), 2000);
  EXPECT_EQ(x.cross_entropy(one).gradient({x})[0].to_vector<float>(), (std::vector<float>{1, -1}));
  EXPECT_EQ(x.binary_crossentropy_logits(Tensor::from(std::vector<float>{0, 1}, Shape{1, 2})).item<float>(),
            1000);
}

std::vector<Row> batchnorms() {
  auto reference = [](const Arrays& a) {  // x, weight, bias, mean, inverse_std
    Array y = a[0];
    each(y.shape, [&](const Ints& i) {
      y(i) = (a[0](i) - a[3]({i[1]})) * a[1]({i[1]}) * a[4]({i[1]}) + a[2]({i[1]});
    });
    return y;
  };
  std::vector<Row> rows = {
      loss("batchnorm", [](const Tensors& x) { return x[0].batchnorm(x[1], x[2], x[3], x[4]); }, reference,
           {{{2, 3}, {3}, {3}, {3}, {3}}, {{2, 2, 2}, {2}, {2}, {2}, {2}}}, {{}, {}, {}, {}, {0.5, 2}},
           {0, 1, 2, 3, 4}),
      loss(
          "batchnorm without weights", [](const Tensors& x) { return x[0].batchnorm({}, {}, x[1], x[2]); },
          [=](const Arrays& a) {
            const Array one(a[0].dtype, a[1].shape, Numbers(a[1].at.size(), 1)), zero(a[0].dtype, a[1].shape);
            return reference({a[0], one, zero, a[1], a[2]});
          },
          {{{2, 3}, {3}, {3}}}, {{}, {}, {0.5, 2}}, {0, 1, 2}),
  };
  for (Row& row : rows) row.narrow = 6;
  return rows;
}
TEST(Batchnorm, Values) { expect_all(batchnorms()); }
TEST(Batchnorm, Gradients) { expect_all_gradients(batchnorms()); }

}  // namespace
}  // namespace quern::optest
