// Functions by the names that users of PyTorch know, against numbers that PyTorch computed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "quern/base/error.h"
#include "quern/tensor/core/tensor.h"

namespace quern::optest {
namespace {

struct Given {
  Tensor a = Tensor::from<float>({1, 2, 3, 4, 5, 6}, Shape{2, 3});
  Tensor b = Tensor::from<float>({0.5, -1, 2, 0, 3, -2}, Shape{2, 3});
  Tensor v = Tensor::from<float>({1, -2, 3});
  Tensor m = Tensor::from<float>({1, 2, 0, -1, 3, 1}, Shape{3, 2});
  Tensor p = Tensor::from<float>({0.2F, 0.7F, 0.1F, 0.5F, 0.25F, 0.25F}, Shape{2, 3});
  Tensor image = Tensor::arange(12).reshape({1, 4, 1, 3}).f32();
  Tensor square = Tensor::arange(20).reshape({1, 4, 5}).f32();
  Tensor odd = Tensor::from<float>({1, NAN, -2, INFINITY, -0.0F});
};

// "" if the elements are these, to some digits.
std::string differs(const Tensor& x, const std::vector<double>& expected) {
  const std::vector<double> got = x.f64().to_vector<double>();
  if (got.size() != expected.size()) return fmt::format("{} elements, not {}", got.size(), expected.size());
  for (size_t i = 0; i < got.size(); i++) {
    const bool is_near = std::abs(got[i] - expected[i]) <= 1e-5 * std::max(1.0, std::abs(expected[i]));
    if (got[i] != expected[i] && !is_near)
      return fmt::format("element {}: {}, not {}", i, got[i], expected[i]);
  }
  return "";
}

class Names : public testing::Test, public Given {};

TEST_F(Names, Shape) {
  EXPECT_EQ(differs(a.swapaxes(0, 1), {1, 4, 2, 5, 3, 6}), "");
  EXPECT_EQ(differs(a.movedim(0, -1), {1, 4, 2, 5, 3, 6}), "");
  EXPECT_EQ(differs(v.tile({2, 2}), {1, -2, 3, 1, -2, 3, 1, -2, 3, 1, -2, 3}), "");
  EXPECT_EQ(differs(m.ravel(), {1, 2, 0, -1, 3, 1}), "");
  EXPECT_EQ(differs(v.expand_as(a), {1, -2, 3, 1, -2, 3}), "");
  EXPECT_EQ(differs(a.view_as(m), {1, 2, 3, 4, 5, 6}), "");
  EXPECT_EQ(differs(a.reshape_as(m), {1, 2, 3, 4, 5, 6}), "");
  EXPECT_EQ(differs(a.unbind(1)[2], {3, 6}), "");
  EXPECT_EQ(differs(a.select(1, -1), {3, 6}), "");
  EXPECT_EQ(differs(a(Slice{1}).select(0, 0), {4, 5, 6}), "");  // of a view, too
  EXPECT_EQ(differs(a.narrow(1, -2, 2), {2, 3, 5, 6}), "");
  EXPECT_EQ(differs(Tensor::hstack({a, b}), {1, 2, 3, 0.5, -1, 2, 4, 5, 6, 0, 3, -2}), "");
  EXPECT_EQ(differs(Tensor::vstack({v, a}), {1, -2, 3, 1, 2, 3, 4, 5, 6}), "");
  EXPECT_EQ(differs(image.pixel_shuffle(2), {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}), "");
  EXPECT_EQ(differs(image.pixel_shuffle(2).pixel_unshuffle(2), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), "");
  EXPECT_EQ(differs(a.take_along_dim(Tensor::from<int32_t>({2, 0}, Shape{2, 1}), 1), {3, 4}), "");
}

TEST_F(Names, Elementwise) {
  EXPECT_EQ(differs(a.atan2(b), {1.107149, 2.034444, 0.9827937, 1.570796, 1.030377, 1.892547}), "");
  EXPECT_EQ(differs(a.hypot(b), {1.118034, 2.236068, 3.605551, 4, 5.830952, 6.324555}), "");
  EXPECT_EQ(differs(b.remainder(1.5), {0.5, 0.5, 0.5, 0, 0, 1}), "");
  EXPECT_EQ(differs(a.logical_and(b), {1, 1, 1, 0, 1, 1}), "");
  EXPECT_EQ(differs(b.logical_or(0), {1, 1, 1, 0, 1, 1}), "");
  EXPECT_EQ(differs(a.logical_xor(b), {0, 0, 0, 1, 0, 0}), "");
  EXPECT_EQ(differs(b.abs().xlogy(a), {0, 0.6931472, 2.197225, 0, 4.828314, 3.583519}), "");
  EXPECT_EQ(differs(a.addcmul(b, v, 0.5), {1.25, 3, 6, 4, 2, 3}), "");
  EXPECT_EQ(differs(b.addcdiv(v, a, -2), {-1.5, 1, 0, -0.5, 3.8, -3}), "");
  EXPECT_EQ(differs(a.deg2rad(), {0.01745329, 0.03490658, 0.05235988, 0.06981317, 0.08726646, 0.1047198}),
            "");
  EXPECT_EQ(differs(a.rad2deg(), {57.29578, 114.5916, 171.8873, 229.1831, 286.4789, 343.7747}), "");
  EXPECT_EQ(differs((b * 0.75).frac(), {0.375, -0.75, 0.5, 0, 0.25, -0.5}), "");
  EXPECT_EQ(differs(odd.signbit(), {0, 0, 1, 0, 1}), "");
  EXPECT_EQ(differs(odd.nan_to_num(0.5, 7), {1, 0.5, -2, 7, -0}), "");
  EXPECT_EQ(differs(p.logit(), {-1.386294, 0.8472978, -2.197225, 0, -1.098612, -1.098612}), "");
  EXPECT_EQ(differs(b.hardshrink(), {0, -1, 2, 0, 3, -2}), "");
  EXPECT_EQ(differs(b.softshrink(), {0, -0.5, 1.5, 0, 2.5, -1.5}), "");
  EXPECT_EQ(differs(b.tanhshrink(), {0.03788283, -0.2384058, 1.035972, 0, 2.004945, -1.035972}), "");
  EXPECT_EQ(differs(b.threshold(0.25, -9), {0.5, -9, 2, -9, 3, -9}), "");
  EXPECT_EQ(differs(b.prelu(v), {0.5, 2, 2, 0, 3, -6}), "");
  EXPECT_EQ(differs(m.glu(), {0.880797, 0, 2.193176}), "");
}

TEST_F(Names, Reduce) {
  EXPECT_EQ(differs(b.amax(1), {2, 3}), "");
  EXPECT_EQ(differs(b.amin({0, 1}), {-2}), "");
  EXPECT_EQ(differs(b.aminmax(0).second, {0.5, 3, 2}), "");
  EXPECT_EQ(differs(b.norm(3, 1), {2.08967, 3.271066}), "");
  EXPECT_EQ(differs(odd.nansum(), {INFINITY}), "");
  EXPECT_EQ(differs(odd(Slice{0, 3}).nanmean(), {-0.5}), "");
  EXPECT_EQ(differs(b.count_nonzero(0), {1, 2, 2}), "");
  EXPECT_EQ(differs(b.median(1).second, {0, 0}), "");
  EXPECT_EQ(differs(b.kthvalue(3).first, {2, 3}), "");
  EXPECT_EQ(differs(b.quantile(0.3, 1), {-0.09999996, -0.8}), "");
  EXPECT_EQ(differs(b.diff(), {-1.5, 3, 3, -5}), "");
}

TEST_F(Names, LinearAlgebra) {
  EXPECT_EQ(differs(a.mm(m), {10, 3, 22, 9}), "");
  EXPECT_EQ(differs(a.unsqueeze(0).bmm(m.unsqueeze(0)), {10, 3, 22, 9}), "");
  EXPECT_EQ(differs(a.mv(v), {6, 12}), "");
  EXPECT_EQ(differs(v.outer(v), {1, -2, 3, -2, 4, -6, 3, -6, 9}), "");
  EXPECT_EQ(differs(Tensor::ones({2}).addmm(a, m, 2, 0.5), {7, 3.5, 13, 6.5}), "");
  EXPECT_EQ(differs(Tensor::ones({2}).baddbmm(a.unsqueeze(0), m.unsqueeze(0)), {11, 4, 23, 10}), "");
  EXPECT_EQ(differs(a.tensordot(b, {0, 1}, {0, 1}), {7.5}), "");
  EXPECT_EQ(differs(m.kron(v), {1, -2, 3, 2, -4, 6, 0, -0, 0, -1, 2, -3, 3, -6, 9, 1, -2, 3}), "");
  EXPECT_EQ(differs(a.trace(), {6}), "");
  EXPECT_EQ(differs(a.cross(b), {7, -0.5, -2, -28, 8, 12}), "");
  EXPECT_EQ(differs(a.cdist(b), {3.201562, 5.196152, 8.01561, 9.165152}), "");
  EXPECT_EQ(differs(a.cosine_similarity(b), {0.5248906, 0.09482095}), "");
  EXPECT_EQ(differs(square.adaptive_avg_pool2d({2, 3}), {3, 4.5, 6, 13, 14.5, 16}), "");
  EXPECT_EQ(differs(square.adaptive_max_pool2d({3, 2}), {7, 9, 12, 14, 17, 19}), "");
}

TEST_F(Names, Losses) {
  EXPECT_EQ(differs(p.binary_cross_entropy(p), {0.5423612}), "");
  EXPECT_EQ(differs(b.binary_cross_entropy_with_logits(p), {1.238822}), "");
  EXPECT_EQ(differs(a.mse_loss(b), {15.70833}), "");
  EXPECT_EQ(differs(a.l1_loss(b, "sum"), {18.5}), "");
  EXPECT_EQ(differs(a.smooth_l1_loss(b, "none", 2), {0.0625, 2, 0.25, 3, 1, 7}), "");
  EXPECT_EQ(differs(a.huber_loss(b, "none", 2), {0.125, 4, 0.5, 6, 2, 14}), "");
  EXPECT_EQ(differs(p.log().kl_div(p.flip(1), "batchmean"), {0.1213008}), "");
}

TEST_F(Names, WhatDoesNotFitIsRefused) {
  EXPECT_THROW((void)a.mm(v), ShapeError);
  EXPECT_THROW((void)a.bmm(a), ShapeError);
  EXPECT_THROW((void)a.cdist(m), ShapeError);
  EXPECT_THROW((void)a.tensordot(b, {0}, {1}), ShapeError);
  EXPECT_THROW((void)a.narrow(1, 2, 2), IndexError);
  EXPECT_THROW((void)a.movedim(0, 5), AxisError);
  EXPECT_THROW((void)a.select(2, 0), AxisError);
  EXPECT_THROW((void)a.select(1, 3), IndexError);
  EXPECT_THROW((void)a.select(1, -4), IndexError);
  EXPECT_THROW((void)a.kthvalue(4), ValueError);
  EXPECT_THROW((void)a.quantile(1.5), ValueError);
  EXPECT_THROW((void)a.pixel_shuffle(2), ShapeError);
  EXPECT_THROW((void)a.adaptive_avg_pool2d(0), Error);
  EXPECT_THROW((void)a.mse_loss(v), ShapeError);
  EXPECT_THROW((void)a.huber_loss(b, "mean", 0), ValueError);
  EXPECT_THROW((void)a.glu(), ShapeError);
  EXPECT_THROW((void)Tensor::zeros({2, 0}).median(1), ShapeError);
}

TEST_F(Names, MediansOfAll) {
  EXPECT_EQ(differs(b.median(), {0}), "");
  EXPECT_TRUE(std::isnan(odd.median().item<float>()));
  EXPECT_EQ(differs(b.tensordot(a), {b.mul(a).sum().item<double>()}), "");
}

}  // namespace
}  // namespace quern::optest
