// Reductions, products, convolutions, losses and decompositions against loops written down plainly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "test/tensor/values.h"

namespace quern {
namespace {

void expect_near(const Tensor& x, const List& want, double tolerance = 1e-5) {
  const List got = values(x);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++)
    ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << "element " << i;
}

TEST(Reduce, Values) {
  const Tensor x = input({2, 3}, {1, 5, 2, -4, 0, 5});
  EXPECT_EQ(values(x.sum(1)), (List{8, 1}));
  EXPECT_EQ(values(x.prod(0)), (List{-4, 0, 10}));
  EXPECT_EQ(values(x.max()), (List{5}));
  EXPECT_EQ(values(x.min(1)), (List{1, -4}));
  EXPECT_EQ(values(x.argmax(1)), (List{1, 2}));
  EXPECT_EQ(values(x.argmax()), (List{1}));
  EXPECT_EQ(values(x.argmin(0)), (List{1, 1, 0}));
  EXPECT_EQ(values(x.any(1)), (List{1, 1}));
  EXPECT_EQ(values(x.all(1)), (List{1, 0}));
  EXPECT_EQ(values(x.mean(0)), (List{-1.5, 2.5, 3.5}));
  expect_near(x.var(1), {4.333333, 20.333333});
  expect_near(x.std(1, false, 0), {1.699673, 3.681787});
  expect_near(x.logsumexp(1), {5.0658839, 5.0068379});
  expect_near(x.softmax(1).sum(1), {1, 1});
  expect_near(x.log_softmax(1), {-4.0658839, -0.0658839, -3.0658839, -9.0068379, -5.0068379, -0.0068379});
  EXPECT_EQ(shape(x.sum({0, 1}, true)), "(1, 1)");
  EXPECT_EQ(values(input({3}, {1, std::nan(""), 9}).argmax()), (List{1}));
  EXPECT_TRUE(std::isnan(values(input({3}, {1, std::nan(""), 9}).max())[0]));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(values(input({2}, {-inf, -inf}).logsumexp()), (List{-inf}));
  EXPECT_EQ(values(Tensor::zeros({0, 2}).sum(0)), (List{0, 0}));
  expect_near(x.normalize(2, 1), {0.182574, 0.912871, 0.365148, -0.624695, 0, 0.780869});
  EXPECT_EQ(values(input({2}, {2147483647, 2147483647}, dtypes::int32).mean()), (List{2147483648.0}));
}

TEST(Scan, ShortAndLong) {
  EXPECT_EQ(values(counted({2, 3}).cumsum(1)), (List{0, 1, 3, 3, 7, 12}));
  EXPECT_EQ(values(counted({2, 3}).cumsum(0)), (List{0, 1, 2, 3, 5, 7}));
  EXPECT_EQ(values((counted({4}) + 1).cumprod()), (List{1, 2, 6, 24}));
  const auto [most, at] = input({6}, {1, 3, 2, 3, 5, 4}).cummax();
  EXPECT_EQ(values(most), (List{1, 3, 3, 3, 5, 5}));
  EXPECT_EQ(values(at), (List{0, 1, 1, 3, 4, 4}));
  EXPECT_EQ(values(input({4}, {3, 1, 2, 0}).cummin().first), (List{3, 1, 1, 0}));
  const Tensor x = (scattered({700}, 5) * 4).trunc();
  List sums = values(x), greatest = sums;
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  for (size_t i = 1; i < greatest.size(); i++) greatest[i] = std::max(greatest[i], greatest[i - 1]);
  EXPECT_EQ(values(x.cumsum()), sums);
  EXPECT_EQ(values(x.cummax().first), greatest);
  expect_near(input({3}, {0, 100, -5}).logcumsumexp(), {0, 100, 100});
}

TEST(Matmul, Values) {
  const Tensor a = counted({2, 3}), b = counted({3, 2});
  EXPECT_EQ(values(a.matmul(b)), (List{10, 13, 28, 40}));
  EXPECT_EQ(values(a.matmul(counted({3}))), (List{5, 14}));
  EXPECT_EQ(values(counted({3}).matmul(b)), (List{10, 13}));
  EXPECT_EQ(values(counted({3}).dot(counted({3}))), (List{5}));
  EXPECT_EQ(shape(Tensor::zeros({5, 1, 2, 3}).matmul(Tensor::zeros({4, 3, 6}))), "(5, 4, 2, 6)");
  EXPECT_EQ(values(Tensor::einsum("ij,jk->ik", {a, b})), (List{10, 13, 28, 40}));
  EXPECT_EQ(values(Tensor::einsum("ij,jk", {a, b})), (List{10, 13, 28, 40}));
  EXPECT_EQ(values(Tensor::einsum("ij->ji", {a})), values(a.T()));
  EXPECT_EQ(values(Tensor::einsum("ii", {counted({3, 3})})), (List{12}));
  EXPECT_EQ(values(Tensor::einsum("ii->i", {counted({3, 3})})), (List{0, 4, 8}));
  EXPECT_EQ(values(Tensor::einsum("iij->ij", {counted({2, 2, 2})})), (List{0, 1, 6, 7}));
  EXPECT_EQ(values(Tensor::einsum("...ij,...jk->...ik", {counted({2, 2, 2}), counted({2, 2})})),
            values(counted({2, 2, 2}).matmul(counted({2, 2}))));
  EXPECT_EQ(values(Tensor::einsum("i,j,k->", {counted({3}), counted({3}), counted({2})})), (List{9}));
  EXPECT_EQ(values(Tensor::einsum("b...->...b", {counted({2, 3})})), values(a.T()));
}

struct Conv {
  int64_t batch, in, out, groups, h, w, kh, kw, sh, sw, dh, dw, top, bottom, left, right;
};

TEST(Conv, AgainstLoops) {
  const Conv cases[] = {{1, 1, 1, 1, 4, 4, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0},
                        {2, 4, 6, 2, 5, 6, 3, 2, 2, 1, 1, 2, 1, 0, 2, 1},
                        {1, 3, 3, 3, 7, 5, 2, 3, 3, 2, 2, 1, 0, 2, 1, 1},
                        {1, 2, 3, 1, 3, 3, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0}};
  for (const Conv& c : cases) {
    const Tensor x = scattered({c.batch, c.in, c.h, c.w}, 1),
                 w = scattered({c.out, c.in / c.groups, c.kh, c.kw}, 2), b = scattered({c.out}, 3);
    const List xs = values(x), ws = values(w), bs = values(b);
    const int64_t oh = (c.h + c.top + c.bottom - (c.kh - 1) * c.dh - 1) / c.sh + 1,
                  ow = (c.w + c.left + c.right - (c.kw - 1) * c.dw - 1) / c.sw + 1;
    const int64_t gin = c.in / c.groups, gout = c.out / c.groups;
    List want;
    for (int64_t n = 0; n < c.batch; n++)
      for (int64_t o = 0; o < c.out; o++)
        for (int64_t i = 0; i < oh; i++)
          for (int64_t j = 0; j < ow; j++) {
            double sum = bs[static_cast<size_t>(o)];
            for (int64_t k = 0; k < gin; k++)
              for (int64_t p = 0; p < c.kh; p++)
                for (int64_t q = 0; q < c.kw; q++) {
                  const int64_t y = i * c.sh + p * c.dh - c.top, z = j * c.sw + q * c.dw - c.left;
                  if (y < 0 || y >= c.h || z < 0 || z >= c.w) continue;
                  sum += xs[static_cast<size_t>(((n * c.in + o / gout * gin + k) * c.h + y) * c.w + z)] *
                         ws[static_cast<size_t>(((o * gin + k) * c.kh + p) * c.kw + q)];
                }
            want.push_back(sum);
          }
    expect_near(x.conv2d(w, b,
                         {.groups = c.groups,
                          .stride = {c.sh, c.sw},
                          .dilation = {c.dh, c.dw},
                          .padding = {c.left, c.right, c.top, c.bottom}}),
                want);
  }
  EXPECT_EQ(values(counted({1, 1, 4}).conv2d(Tensor::ones({1, 1, 2}))), (List{1, 3, 5}));
  EXPECT_EQ(shape(Tensor::zeros({1, 2, 4, 5, 6}).conv2d(Tensor::zeros({3, 2, 2, 2, 2}), {}, {.padding = 1})),
            "(1, 3, 5, 6, 7)");
}

TEST(Conv, TransposeAgainstLoops) {
  const Conv cases[] = {{1, 1, 1, 1, 3, 3, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0},
                        {2, 4, 6, 2, 3, 4, 3, 2, 2, 3, 1, 2, 1, 1, 1, 1}};
  for (const Conv& c : cases)
    for (const int64_t extra : {0, 1}) {
      if (extra >= c.sh) continue;
      const int64_t gin = c.in / c.groups, gout = c.out / c.groups;
      const Tensor x = scattered({c.batch, c.in, c.h, c.w}, 1), w = scattered({c.in, gout, c.kh, c.kw}, 2);
      const List xs = values(x), ws = values(w);
      const int64_t oh = (c.h - 1) * c.sh - c.top - c.bottom + (c.kh - 1) * c.dh + 1 + extra,
                    ow = (c.w - 1) * c.sw - c.left - c.right + (c.kw - 1) * c.dw + 1 + extra;
      List want(static_cast<size_t>(c.batch * c.out * oh * ow), 0.0);
      for (int64_t n = 0; n < c.batch; n++)
        for (int64_t k = 0; k < c.in; k++)
          for (int64_t i = 0; i < c.h; i++)
            for (int64_t j = 0; j < c.w; j++)
              for (int64_t o = 0; o < gout; o++)
                for (int64_t p = 0; p < c.kh; p++)
                  for (int64_t q = 0; q < c.kw; q++) {
                    const int64_t y = i * c.sh + p * c.dh - c.top, z = j * c.sw + q * c.dw - c.left;
                    if (y < 0 || y >= oh || z < 0 || z >= ow) continue;
                    want[static_cast<size_t>(((n * c.out + k / gin * gout + o) * oh + y) * ow + z)] +=
                        xs[static_cast<size_t>(((n * c.in + k) * c.h + i) * c.w + j)] *
                        ws[static_cast<size_t>(((k * gout + o) * c.kh + p) * c.kw + q)];
                  }
      expect_near(x.conv_transpose2d(w, {},
                                     {.groups = c.groups,
                                      .stride = {c.sh, c.sw},
                                      .dilation = {c.dh, c.dw},
                                      .padding = {c.left, c.right, c.top, c.bottom},
                                      .output_padding = extra}),
                  want);
    }
}

TEST(Pool, Values) {
  const Tensor x = counted({1, 1, 4, 4});
  EXPECT_EQ(values(x.max_pool2d()), (List{5, 7, 13, 15}));
  EXPECT_EQ(values(x.avg_pool2d()), (List{2.5, 4.5, 10.5, 12.5}));
  EXPECT_EQ(values(x.max_pool2d({3, 3}, {.stride = 1})), (List{10, 11, 14, 15}));
  EXPECT_EQ(values(x.neg().max_pool2d({3, 3}, {.stride = 2, .padding = 1})), (List{0, -1, -4, -5}));
  EXPECT_EQ(values(x.max_pool2d({3, 3}, {.stride = 2, .ceil_mode = true})), (List{10, 11, 14, 15}));
  EXPECT_EQ(values(x.avg_pool2d({3, 3}, {.stride = 2, .ceil_mode = true})), (List{5, 6.5, 11, 12.5}));
  expect_near(x.avg_pool2d({2, 2}, {.stride = 2, .padding = 1}), {0, 0.75, 0.75, 3, 7.5, 4.5, 3, 6.75, 3.75});
  expect_near(x.avg_pool2d({2, 2}, {.stride = 2, .padding = 1, .count_include_pad = false}),
              {0, 1.5, 3, 6, 7.5, 9, 12, 13.5, 15});
  const auto [most, at] = x.max_pool2d_with_indices();
  EXPECT_EQ(values(at), (List{5, 7, 13, 15}));
  EXPECT_EQ(values(counted({1, 5}).max_pool2d({1, 2}, {.stride = {1, 2}})), (List{1, 3}));
  EXPECT_EQ(values(most.max_unpool2d(at)), (List{0, 0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 0, 0, 13, 0, 15}));
}

TEST(Attention, AgainstLoops) {
  const int64_t n = 4, m = 5, e = 3;
  const Tensor q = scattered({n, e}, 1), k = scattered({m, e}, 2), v = scattered({m, 2}, 3);
  const List qs = values(q), ks = values(k), vs = values(v);
  for (const bool causal : {false, true}) {
    List want;
    for (int64_t i = 0; i < n; i++) {
      List p;
      for (int64_t j = 0; j < m; j++) {
        double s = 0;
        for (int64_t d = 0; d < e; d++)
          s += qs[static_cast<size_t>(i * e + d)] * ks[static_cast<size_t>(j * e + d)];
        p.push_back(causal && j > i ? 0 : std::exp(s / std::sqrt(3.0)));
      }
      const double total = std::accumulate(p.begin(), p.end(), 0.0);
      for (int64_t c = 0; c < 2; c++) {
        double s = 0;
        for (int64_t j = 0; j < m; j++) s += p[static_cast<size_t>(j)] * vs[static_cast<size_t>(j * 2 + c)];
        want.push_back(s / total);
      }
    }
    expect_near(q.scaled_dot_product_attention(k, v, {}, {.causal = causal}), want);
  }
  const Tensor heads = scattered({4, 2, 3}, 5), shared = scattered({2, 6, 3}, 6);
  expect_near(heads.scaled_dot_product_attention(shared, shared, {}, {.enable_gqa = true}),
              values(heads.scaled_dot_product_attention(shared.repeat_interleave(2, 0),
                                                        shared.repeat_interleave(2, 0))));
}

TEST(Linalg, QrAndSvd) {
  for (const Shape& s : std::vector<Shape>{{3, 3}, {4, 2}, {2, 4}, {2, 3, 3}, {5, 1}}) {
    const Tensor x = scattered(s, 9, dtypes::float64);
    const auto [q, r] = x.qr();
    expect_near(q.matmul(r), values(x), 1e-12);
    const int64_t m = q.size(-1).value();
    expect_near(q.transpose(-2, -1).matmul(q),
                values(Tensor::eye(m, {}, {.dtype = dtypes::float64}).expand(q.shape())), 1e-12);
  }
  for (const Shape& s : std::vector<Shape>{{3, 3}, {4, 2}, {2, 4}, {2, 1}}) {
    const Tensor x = scattered(s, 9, dtypes::float64);
    for (const bool full : {false, true}) {
      const auto [u, d, vh] = x.svd(full);
      const int64_t k = d.size(-1).value();
      expect_near(u.at({everything, Slice{0, k}}).matmul(d.diag()).matmul(vh.at({Slice{0, k}})), values(x),
                  1e-11);
      const List sizes = values(d);
      EXPECT_TRUE(std::is_sorted(sizes.rbegin(), sizes.rend()));
      expect_near(u.T().matmul(u), values(Tensor::eye(u.size(1).value(), {}, {.dtype = dtypes::float64})),
                  1e-11);
    }
  }
  const Tensor deficient = input({3, 2}, {1, 2, 2, 4, 3, 6}, dtypes::float64);
  const auto [u, d, vh] = deficient.svd();
  expect_near(d, {std::sqrt(70.0), 0}, 1e-12);
  expect_near(u.T().matmul(u), values(Tensor::eye(3, {}, {.dtype = dtypes::float64})), 1e-11);
  expect_near(scattered({3, 5}, 4)
                  .newton_schulz(12, {1.5, -0.5})
                  .matmul(scattered({3, 5}, 4).newton_schulz(12, {1.5, -0.5}).T()),
              values(Tensor::eye(3)), 0.05);
}

TEST(Losses, Values) {
  const Tensor x = input({2, 3}, {1, 2, 3, 0, -1, 4}), y = input({2}, {2, 0}, dtypes::int32);
  const List log_p = values(x.log_softmax(1));
  const double a = -log_p[2], b = -log_p[3];
  expect_near(x.cross_entropy(y), {(a + b) / 2});
  expect_near(x.cross_entropy(y, "none"), {a, b});
  expect_near(x.sparse_categorical_crossentropy(y, -1, 0, "sum"), {a + b});
  expect_near(x.sparse_categorical_crossentropy(y, 0), {a});
  expect_near(x.log_softmax(1).nll_loss(y), {(a + b) / 2});
  expect_near(x.log_softmax(1).nll_loss(y, input({3}, {3, 1, 1})), {(a + 3 * b) / 4});
  const double smooth = -(log_p[0] + log_p[1] + log_p[2]) / 3;
  expect_near(x.cross_entropy(y, "none", 0.1).at({0}), {0.9 * a + 0.1 * smooth});
  const Tensor logits = input({3}, {-2, 0, 3}), t = input({3}, {0, 1, 1});
  const List p = values(logits.sigmoid());
  const double bce = -(std::log(1 - p[0]) + std::log(p[1]) + std::log(p[2])) / 3;
  expect_near(logits.sigmoid().binary_crossentropy(t), {bce});
  expect_near(logits.binary_crossentropy_logits(t), {bce});
  expect_near(counted({2, 3}).layernorm(), {-1.2247356, 0, 1.2247356, -1.2247356, 0, 1.2247356});
}

}  // namespace
}  // namespace quern
