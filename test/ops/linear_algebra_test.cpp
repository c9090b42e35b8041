// Products of matrices, attention, decompositions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

Row algebra_row(const std::string& name, Function<Tensor> ours, Function<Array> reference,
                const std::vector<std::vector<Ints>>& shapes, const Types& types = kFloats) {
  std::vector<size_t> by(shapes[0].size());
  std::iota(by.begin(), by.end(), size_t{0});
  return {.name = name,
          .ours = std::move(ours),
          .reference = std::move(reference),
          .inputs = std::vector<Input>(by.size()),
          .shapes = shapes,
          .types = types,
          .close = {16, true},
          .narrow = 1,
          .by = by,
          .twice = true};
}

// As NumPy: one axis stands for a row on the left, for a column on the right.
Array dot(const Array& a, const Array& b) {
  const Array x = a.rank() == 1 ? reshaped(a, {1, a.shape[0]}) : a,
              y = b.rank() == 1 ? reshaped(b, {b.shape[0], 1}) : b;
  Array c = matmul(x, y);
  if (b.rank() == 1) c.shape.pop_back();
  if (a.rank() == 1) c.shape.erase(c.shape.end() - (b.rank() == 1 ? 1 : 2));
  if (!c.dtype.is_float())
    for (Number& n : c.at) n = c.dtype.is_bool() ? (n != 0 ? 1 : 0) : wrapped(c.dtype, static_cast<Whole>(n));
  return c;
}

// Every letter is a loop. `terms` and the result as in "ij,jk->ik".
Array einsum(const std::string& formula, const Arrays& a) {
  std::vector<std::string> terms(1);
  const size_t arrow = formula.find("->");
  for (const char c : formula.substr(0, arrow))
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  const std::string result = formula.substr(arrow + 2);
  std::map<char, int64_t> sizes;
  for (size_t t = 0; t < terms.size(); t++)
    for (size_t i = 0; i < terms[t].size(); i++) sizes[terms[t][i]] = a[t].shape[i];
  std::string letters;
  Ints all, shape;
  for (const auto& [letter, size] : sizes) letters += letter, all.push_back(size);
  for (const char c : result) shape.push_back(sizes[c]);
  auto pick_of = [&](const std::string& term, const Ints& index) {
    Ints out;
    for (const char c : term) out.push_back(index[letters.find(c)]);
    return out;
  };
  Array out(a[0].dtype, shape);
  each(all, [&](const Ints& i) {
    Number product = 1;
    for (size_t t = 0; t < terms.size(); t++) product *= a[t](pick_of(terms[t], i));
    out(pick_of(result, i)) += product;
  });
  return out;
}
Row einsum_row(const std::string& formula, const std::vector<Ints>& shapes) {
  return algebra_row(
      "einsum " + formula, [=](const Tensors& x) { return Tensor::einsum(formula, x); },
      [=](const Arrays& a) { return einsum(formula, a); }, {shapes});
}

std::vector<Row> products() {
  const std::vector<std::vector<Ints>> pairs = {
      {{2, 3}, {3, 4}},          {{3}, {3, 2}},    {{2, 3}, {3}},    {{3}, {3}},
      {{2, 1, 2, 3}, {3, 3, 2}}, {{2, 0}, {0, 3}}, {{0, 3}, {3, 2}}, {{1, 1}, {1, 1}}};
  std::vector<Row> rows = {
      algebra_row(
          "dot", [](const Tensors& x) { return x[0].dot(x[1]); },
          [](const Arrays& a) { return dot(a[0], a[1]); }, pairs, kAll),
      algebra_row(
          "matmul", [](const Tensors& x) { return x[0].matmul(x[1]); },
          [](const Arrays& a) { return dot(a[0], a[1]); }, {pairs[0]}),
      algebra_row(
          "linear", [](const Tensors& x) { return x[0].linear(x[1], x[2]); },
          [](const Arrays& a) {
            return elementwise(a[0].dtype, {dot(a[0], a[1]), a[2]},
                               [](const Numbers& n) { return n[0] + n[1]; });
          },
          {{{2, 3}, {3, 4}, {4}}, {{3}, {3, 4}, {4}}, {{0, 3}, {3, 4}, {4}}}),
      algebra_row(
          "linear of one axis", [](const Tensors& x) { return x[0].linear(x[1]); },
          [](const Arrays& a) {
            return elementwise(a[0].dtype, {a[0], a[1]}, [](const Numbers& n) { return n[0] * n[1]; });
          },
          {{{2, 3}, {3}}}),
      einsum_row("ij,jk->ik", {{2, 3}, {3, 2}}),
      einsum_row("bij,bjk->bik", {{2, 2, 3}, {2, 3, 2}}),
      einsum_row("i,j->ij", {{2}, {3}}),
      einsum_row("ii->i", {{3, 3}}),
      einsum_row("ii->", {{3, 3}}),
      einsum_row("iji->ij", {{2, 3, 2}}),
      einsum_row("ijk->kji", {{2, 3, 2}}),
      einsum_row("ij->", {{2, 3}}),
      einsum_row("ij,ij,j->i", {{2, 3}, {2, 3}, {3}}),
      einsum_row("abc,cd,de->abe", {{2, 1, 3}, {3, 2}, {2, 2}}),
      algebra_row(
          "einsum with an ellipsis", [](const Tensors& x) { return Tensor::einsum("...ij,...jk->...ik", x); },
          [](const Arrays& a) { return matmul(a[0], a[1]); },
          {{{2, 2, 3}, {3, 2}}, {{2, 1, 2, 2}, {1, 2, 2, 2}}}),
      algebra_row(
          "sequential",
          [](const Tensors& x) {
            return x[0].sequential(
                {[](const Tensor& t) { return t * 2; }, [](const Tensor& t) { return t + 1; }});
          },
          [](const Arrays& a) {
            return elementwise(a[0].dtype, a, [](const Numbers& n) { return n[0] * 2 + 1; });
          },
          {{{2, 3}}}, kWide),
  };
  rows[2].narrow = 2;  // the bias is added to what was rounded
  return rows;
}

TEST(Products, Values) { expect_all(products()); }
TEST(Products, Gradients) { expect_all_gradients(products()); }

TEST(Products, OfNarrowIntegersAreWide) {
  for (const DType dtype : {dtypes::int8, dtypes::uint8, dtypes::bool_}) {
    const Tensor x = Tensor::full({300}, dtype.is_bool() ? 1 : 100).cast(dtype), row = x.reshape({1, 1, 300});
    const int64_t want = dtype.is_bool() ? 300 : 3000000;
    for (const Tensor& y : {Tensor::einsum("i,i->", {x, x}), row.conv2d(row).flatten()}) {
      EXPECT_EQ(y.dtype(), x.sum().dtype());
      EXPECT_EQ(y.item<int64_t>(), want) << dtype.name();
    }
  }
}

TEST(Products, DtypeOfTheResult) {
  std::mt19937_64 random = generator("products");
  const Array a = random_array(random, dtypes::float16, {3, 40}, {}),
              b = random_array(random, dtypes::float16, {40, 3}, {});
  EXPECT_EQ(difference(array_of(tensor_of(a).matmul(tensor_of(b), dtypes::float32)),
                       with_dtype(dot(a, b), dtypes::float32), {32, true}),
            "");
  EXPECT_EQ(tensor_of(a).matmul(tensor_of(b).f32()).dtype(), dtypes::float32);
  EXPECT_EQ(Tensor::einsum("ij,jk->ik", {tensor_of(a), tensor_of(b)}, dtypes::float64).dtype(),
            dtypes::float64);
}

// ---- Attention

Array attention(const Array& q, const Array& k, const Array& v,
                const std::function<Number(const Ints&, Number)>& masked) {
  Array scores = matmul(q, swapped(k, -1, -2));
  each(scores.shape, [&](const Ints& i) {
    scores(i) = masked(i, scores(i) / std::sqrt(static_cast<Number>(q.shape.back())));
  });
  const Array weights = along(scores, -1, [](const Numbers& line) {
    const Number top = *std::ranges::max_element(line);
    Numbers out;
    Number sum = 0;
    for (const Number x : line) out.push_back(std::exp(x - top)), sum += out.back();
    for (Number& x : out) x /= sum;
    return out;
  });
  return matmul(weights, v);
}
Array heads_repeated(const Array& a, int64_t times) {  // axis -3
  Ints shape = a.shape;
  const size_t at = shape.size() - 3;
  shape[at] *= times;
  return moved(a, shape, [=](Ints i) {
    i[at] /= times;
    return i;
  });
}

std::vector<Row> attentions() {
  const Number inf = std::numeric_limits<Number>::infinity();
  const auto none = [](const Ints&, Number x) { return x; };
  const auto causal = [=](const Ints& i, Number x) { return i[i.size() - 1] > i[i.size() - 2] ? -inf : x; };
  const std::vector<std::vector<Ints>> plain = {{{2, 3, 4}, {2, 2, 4}, {2, 2, 3}}, {{1, 4}, {3, 4}, {3, 2}}};
  std::vector<Row> rows = {
      algebra_row(
          "scaled_dot_product_attention",
          [](const Tensors& x) { return x[0].scaled_dot_product_attention(x[1], x[2]); },
          [=](const Arrays& a) { return attention(a[0], a[1], a[2], none); }, plain),
      algebra_row(
          "scaled_dot_product_attention, causal",
          [](const Tensors& x) {
            return x[0].scaled_dot_product_attention(x[1], x[2], {}, {.causal = true});
          },
          [=](const Arrays& a) { return attention(a[0], a[1], a[2], causal); },
          {{{2, 3, 4}, {2, 3, 4}, {2, 3, 2}}}),
      algebra_row(
          "scaled_dot_product_attention, grouped",
          [](const Tensors& x) {
            return x[0].scaled_dot_product_attention(x[1], x[2], {}, {.enable_gqa = true});
          },
          [=](const Arrays& a) {
            return attention(a[0], heads_repeated(a[1], 2), heads_repeated(a[2], 2), none);
          },
          {{{4, 2, 3}, {2, 3, 3}, {2, 3, 2}}}),
      algebra_row(
          "scaled_dot_product_attention, mask added",
          [](const Tensors& x) { return x[0].scaled_dot_product_attention(x[1], x[2], x[3]); },
          [=](const Arrays& a) {
            return attention(a[0], a[1], a[2],
                             [&](const Ints& i, Number x) { return x + a[3]({i[1], i[2]}); });
          },
          {{{2, 3, 4}, {2, 2, 4}, {2, 2, 3}, {3, 2}}}),
  };
  for (Row& row : rows) {
    row.types = {dtypes::float32, dtypes::float64, dtypes::float16, dtypes::bfloat16};
    row.narrow = 3;  // the weights are rounded before the second product
  }
  return rows;
}

TEST(Attention, Values) { expect_all(attentions()); }
TEST(Attention, Gradients) { expect_all_gradients(attentions()); }

TEST(Attention, BoolMask) {
  std::mt19937_64 random = generator("mask");
  const Array q = random_array(random, dtypes::float64, {3, 4}, {}),
              k = random_array(random, dtypes::float64, {4, 4}, {});
  Array mask = random_array(random, dtypes::bool_, {3, 4}, {});
  for (int64_t i = 0; i < 3; i++) mask({i, i}) = 1;
  const Array want = attention(q, k, k, [&](const Ints& i, Number x) {
    return mask(i) != 0 ? x : -std::numeric_limits<Number>::infinity();
  });
  EXPECT_EQ(difference(array_of(tensor_of(q).scaled_dot_product_attention(tensor_of(k), tensor_of(k),
                                                                          tensor_of(mask))),
                       want, {16, true}),
            "");
}

// ---- Decompositions: by what they must satisfy

Array identity(int64_t n) {
  Array a(dtypes::float64, {n, n});
  for (int64_t i = 0; i < n; i++) a({i, i}) = 1;
  return a;
}

TEST(Decompositions, Qr) {
  std::mt19937_64 random = generator("qr");
  for (const Ints& shape : std::vector<Ints>{{4, 3}, {3, 4}, {3, 3}, {1, 3}, {3, 1}, {1, 1}, {2, 3, 2}}) {
    const Array a = random_array(random, dtypes::float64, shape, {});
    const auto [q, r] = tensor_of(a).qr();
    const Array Q = array_of(q), R = array_of(r);
    EXPECT_EQ(difference(matmul(Q, R), a, {16, true}), "") << text(shape);
    const int64_t m = shape[shape.size() - 2];
    const Array unit = matmul(swapped(Q, -1, -2), Q);
    EXPECT_EQ(difference(unit, broadcast(identity(m), unit.shape), {16, true}), "") << text(shape);
    each(R.shape, [&](const Ints& i) {
      if (i[i.size() - 2] > i[i.size() - 1]) EXPECT_EQ(R(i), 0);
    });
  }
}

TEST(Decompositions, Svd) {
  std::mt19937_64 random = generator("svd");
  for (const Ints& shape : std::vector<Ints>{{4, 3}, {2, 4}, {3, 3}, {1, 3}, {1, 1}, {2, 3, 2}})
    for (const bool full : {true, false}) {
      Array a = random_array(random, dtypes::float64, shape, {});
      if (shape == Ints{3, 3})  // of rank 2
        for (int64_t i = 0; i < 3; i++) a({i, 2}) = a({i, 0}) + a({i, 1});
      const auto [u, s, vh] = tensor_of(a).svd(full);
      Array U = array_of(u), S = array_of(s), V = array_of(vh);
      const int64_t m = shape[shape.size() - 2], n = shape.back(), k = std::min(m, n);
      ASSERT_EQ(U.shape.back(), full ? m : k);
      ASSERT_EQ(V.shape[V.shape.size() - 2], full ? n : k);
      Array sigma(dtypes::float64, shape);
      sigma.shape[shape.size() - 2] = U.shape.back(), sigma.shape.back() = V.shape[V.shape.size() - 2];
      sigma.at.assign(static_cast<size_t>(count(sigma.shape)), 0);
      each(S.shape, [&](Ints i) {
        const Number value = S(i);
        EXPECT_GE(value, 0);
        if (i.back() > 0) {
          Ints before = i;
          before.back()--;
          EXPECT_LE(value, S(before));
        }
        i.push_back(i.back());
        sigma(i) = value;
      });
      EXPECT_EQ(difference(matmul(matmul(U, sigma), V), a, {64, true}), "") << text(shape);
      const Array unit = matmul(swapped(U, -1, -2), U), other = matmul(V, swapped(V, -1, -2));
      EXPECT_EQ(difference(unit, broadcast(identity(U.shape.back()), unit.shape), {64, true}), "")
          << text(shape);
      EXPECT_EQ(difference(other, broadcast(identity(V.shape[V.shape.size() - 2]), other.shape), {64, true}),
                "")
          << text(shape);
    }
}

std::vector<Row> newton() {  // g (a + b gg' + c (gg')^2), twice
  auto reference = [](const Arrays& x) {
    Number squares = 0;
    for (const Number n : x[0].at) squares += n * n;
    const bool tall = x[0].shape[0] > x[0].shape[1];
    Array g = tall ? swapped(x[0], 0, 1) : x[0];
    for (Number& n : g.at) n /= std::sqrt(squares) + 1e-7L;
    for (int step = 0; step < 2; step++) {
      const Array s = matmul(g, swapped(g, 0, 1)), first = matmul(s, g), second = matmul(s, first);
      for (size_t i = 0; i < g.at.size(); i++) g.at[i] = 3 * g.at[i] - 4 * first.at[i] + 2 * second.at[i];
    }
    return tall ? swapped(g, 0, 1) : g;
  };
  return {algebra_row(
      "newton_schulz", [](const Tensors& x) { return x[0].newton_schulz(2, {3, -4, 2}); }, reference,
      {{{2, 3}}, {{3, 2}}, {{2, 2}}}, kWide)};
}
TEST(Decompositions, NewtonSchulz) { expect_all(newton()); }
TEST(Decompositions, NewtonSchulzGradients) { expect_all_gradients(newton()); }

// Against differences of what they are made of: R and the singular values, which do not depend on signs.
TEST(Decompositions, Gradients) {
  std::mt19937_64 random = generator("decompositions");
  auto slope_of = [&](const Ints& shape, const std::function<Tensor(const Tensor&)>& f) {
    const Array a = random_array(random, dtypes::float64, shape, {});
    const Tensor x = tensor_of(a), g = f(x).gradient({x})[0];
    const Array got = array_of(g);
    for (size_t i = 0; i < a.at.size(); i++) {
      Array above = a, below = a;
      const double h = 1e-5;
      above.at[i] += h, below.at[i] -= h;
      for (Array* b : {&above, &below})
        for (Number& n : b->at) n = rounded(dtypes::float64, n);
      const double slope =
          (f(tensor_of(above)).item<double>() - f(tensor_of(below)).item<double>()) / (2 * h);
      EXPECT_NEAR(static_cast<double>(got.at[i]), slope, 1e-6) << i;
    }
  };
  slope_of({3, 2}, [](const Tensor& x) { return x.qr().second.abs().log1p().sum(); });
  for (const Ints& shape :
       {Ints{3, 2}, Ints{3, 3}, Ints{2, 5}})  // a column is added where their number is odd
    slope_of(shape, [](const Tensor& x) { return x.svd(false).s.square().square().sum(); });
}

}  // namespace
}  // namespace quern::optest
