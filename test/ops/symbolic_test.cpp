// Sizes that are known when the program runs. A bound variable gives what the number would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/error_of.h"
#include "test/ops/row.h"

namespace quern::optest {
namespace {

const Array& memory() {
  static const Array a = [] {
    std::mt19937_64 random = generator("symbolic");
    return random_array(random, dtypes::float64, {6, 4}, {0.5, 2});
  }();
  return a;
}

using OfRows = std::function<Tensor(const Tensor& x, const Dim& n)>;  // of the first n rows

struct Symbolic {
  const char* name;
  OfRows op;
};

const Symbolic kSymbolic[] = {
    {"add", [](const Tensor& x, const Dim&) { return x + x * 2; }},
    {"exp", [](const Tensor& x, const Dim&) { return x.exp(); }},
    {"where", [](const Tensor& x, const Dim&) { return x.gt(1).where(x, 0); }},
    {"sum", [](const Tensor& x, const Dim&) { return x.sum(0); }},
    {"mean", [](const Tensor& x, const Dim&) { return x.mean(); }},
    {"var", [](const Tensor& x, const Dim&) { return x.var(0); }},
    {"std", [](const Tensor& x, const Dim&) { return x.std({}, false, 0); }},
    {"prod", [](const Tensor& x, const Dim&) { return x.prod(0); }},
    {"max", [](const Tensor& x, const Dim&) { return x.max(); }},
    {"argmax", [](const Tensor& x, const Dim&) { return x.argmax(0); }},
    {"argmin of all", [](const Tensor& x, const Dim&) { return x.argmin(); }},
    {"any", [](const Tensor& x, const Dim&) { return x.gt(1.9).any(0); }},
    {"softmax", [](const Tensor& x, const Dim&) { return x.softmax(0).sum(1); }},
    {"log_softmax", [](const Tensor& x, const Dim&) { return x.log_softmax(0); }},
    {"logsumexp", [](const Tensor& x, const Dim&) { return x.logsumexp(0); }},
    {"layernorm", [](const Tensor& x, const Dim&) { return x.layernorm({0, 1}); }},
    {"cumsum", [](const Tensor& x, const Dim&) { return x.cumsum(0); }},
    {"cummax", [](const Tensor& x, const Dim&) { return x.cummax(0).first; }},
    {"logcumsumexp", [](const Tensor& x, const Dim&) { return x.logcumsumexp(0); }},
    {"permute", [](const Tensor& x, const Dim&) { return x.permute({1, 0}) * 2; }},
    {"flip", [](const Tensor& x, const Dim&) { return x.flip(0); }},
    {"reshape", [](const Tensor& x, const Dim& n) { return x.reshape({n, 2, 2}).sum(2); }},
    {"flatten", [](const Tensor& x, const Dim&) { return x.flatten() + 1; }},
    {"pad", [](const Tensor& x, const Dim&) { return x.pad({1, 0, 0, 2}); }},
    {"expand", [](const Tensor& x, const Dim& n) { return x.sum(0).expand({n, 4}); }},
    {"cat", [](const Tensor& x, const Dim&) { return Tensor::cat({x, x * 2}); }},
    {"repeat", [](const Tensor& x, const Dim&) { return x.repeat({2, 1}); }},
    {"matmul", [](const Tensor& x, const Dim&) { return x.dot(x.transpose()); }},
    {"matmul over it", [](const Tensor& x, const Dim&) { return x.transpose().dot(x); }},
    {"einsum", [](const Tensor& x, const Dim&) { return Tensor::einsum("ij,ij->j", {x, x}); }},
    {"attention", [](const Tensor& x, const Dim&) { return x.scaled_dot_product_attention(x, x); }},
    {"causal attention",
     [](const Tensor& x, const Dim&) { return x.scaled_dot_product_attention(x, x, {}, {.causal = true}); }},
    {"tril", [](const Tensor& x, const Dim&) { return x.tril(); }},
    {"slice", [](const Tensor& x, const Dim&) { return x.at({Slice{1, {}}}); }},
    {"the last", [](const Tensor& x, const Dim&) { return x.at({-1}); }},
    {"gather",
     [](const Tensor& x, const Dim&) {
       return x.gather(0, Tensor::from(std::vector<int64_t>{1, 0, 1, 0}, Shape{1, 4}));
     }},
    {"at a tensor",
     [](const Tensor& x, const Dim&) { return x.at({Tensor::from(std::vector<int64_t>{-1, 1, 0})}); }},
    {"scatter",
     [](const Tensor& x, const Dim&) {
       return x.scatter(0, Tensor::from(std::vector<int64_t>{1, 0}, Shape{1, 2}), 9.0);
     }},
    {"full", [](const Tensor& x, const Dim& n) { return Tensor::full({n}, 3.0).sum() + x.sum(); }},
    {"from_dim",
     [](const Tensor& x, const Dim& n) { return x.sum() + Tensor::from_dim(n, dtypes::float64); }},
    {"cross_entropy", [](const Tensor& x, const Dim& n) { return x.cross_entropy(Tensor::full({n}, 1)); }},
    // Over axes that are not symbolic
    {"sort of rows", [](const Tensor& x, const Dim&) { return x.sort(1).first; }},
    {"topk of rows", [](const Tensor& x, const Dim&) { return x.topk(2, 1).first; }},
    {"conv of a batch",
     [](const Tensor& x, const Dim& n) {
       return x.reshape({n, 1, 2, 2}).conv2d(Tensor::ones({2, 1, 2, 2}, {.dtype = dtypes::float64}));
     }},
    {"pool of a batch", [](const Tensor& x, const Dim& n) { return x.reshape({n, 1, 2, 2}).max_pool2d(); }},
    {"average of a batch",
     [](const Tensor& x, const Dim& n) { return x.reshape({n, 1, 2, 2}).avg_pool2d(); }},
    {"cumsum of rows", [](const Tensor& x, const Dim&) { return x.cumsum(1); }},
    {"interpolate rows", [](const Tensor& x, const Dim& n) { return x.reshape({n, 1, 4}).interpolate({3}); }},
};

TEST(Symbolic, AsWithNumbers) {
  const Variable rows("rows", 1, 6);
  for (const Symbolic& s : kSymbolic)
    for (const int64_t n : {3, 1, 6}) {
      if (n == 1 && (std::string(s.name) == "at a tensor" || std::string(s.name) == "gather" ||
                     std::string(s.name) == "scatter"))
        continue;
      try {
        const Tensor x = tensor_of(memory());
        const Array want = array_of(s.op(x.shrink({{{0, n}}, std::nullopt}), Dim(n)));
        const Array got = array_of(s.op(x.shrink({{{Dim(0), rows.bind(n)}}, std::nullopt}), rows.bind(n)));
        EXPECT_EQ(difference({got.dtype, {std::ssize(got.at)}, got.at},
                             {want.dtype, {std::ssize(want.at)}, want.at}, {16, true}),
                  "")
            << s.name << " of " << n;
      } catch (const std::exception& e) {
        ADD_FAILURE() << s.name << " of " << n << ": " << e.what();
      }
    }
}

TEST(Symbolic, NoStep) {
  const Variable n("n", 0, 1);
  const Tensor x = Tensor::full({1, 3}, 2.0);
  const auto sum = [&](int64_t rows) {
    return x.shrink({{{Dim(0), n.bind(rows)}}, std::nullopt}).sum().item<float>();
  };
  EXPECT_EQ(sum(0), 0);
  EXPECT_EQ(sum(1), 6);
}

TEST(Symbolic, Gradients) {
  const Variable rows("rows", 1, 6);
  for (const Symbolic& s : kSymbolic) {
    if (!s.op(tensor_of(memory()), Dim(6)).is_floating_point()) continue;
    try {
      const Tensor x = tensor_of(memory());
      auto slope = [&](const Dim& n) {
        const Tensor y = s.op(x.shrink({{{Dim(0), n}}, std::nullopt}), n);
        return array_of((y * y * y).sum().gradient({x})[0]);  // the squares of a norm would have no slope
      };
      EXPECT_EQ(difference(slope(rows.bind(4)), slope(Dim(4)), {64, true}), "") << s.name;
    } catch (const std::exception& e) {
      ADD_FAILURE() << s.name << ": " << e.what();
    }
  }
}

// What cannot be done along an axis of symbolic size says so.
TEST(Symbolic, WhatNeedsNumbers) {
  const Tensor x = tensor_of(memory()).shrink({{{Dim(0), Variable("rows", 1, 6).bind(3)}}, std::nullopt});
  const Tensor image = x.reshape({1, 1, x.size(0), 4});
  const std::function<void()> uses[] = {
      [&] { x.diagonal(); },
      [&] { x.nonzero(); },
      [&] { x.qr(); },
      [&] { x.svd(); },
      [&] { image.max_pool2d(1); },
      [&] { image.avg_pool2d(1); },
      [&] { image.interpolate({2, 2}); },
      [&] { x.pad({0, 0, 1, 1}, "reflect"); },
  };
  for (size_t i = 0; i < std::size(uses); i++)
    EXPECT_THAT(error_of<ShapeError>(uses[i]), ::testing::HasSubstr("symbolic")) << i;
}

}  // namespace
}  // namespace quern::optest
