// Size 0 everywhere: the shape of the result, and of the gradient.
#include <gtest/gtest.h>

#include "test/ops/row.h"

namespace quern::optest {
namespace {

struct OfNothing {
  const char* name;
  Ints given, result;
  std::function<Tensor(const Tensor&)> op;
};

Tensor ones(const Shape& shape) { return Tensor::ones(shape); }
Tensor indices(const Shape& shape) { return Tensor::zeros(shape, {.dtype = dtypes::int64}); }

const OfNothing kOfNothing[] = {
    {"exp", {0, 3}, {0, 3}, [](const Tensor& x) { return x.exp(); }},
    {"add", {0, 3}, {0, 3}, [](const Tensor& x) { return x + ones({1, 3}); }},
    {"sum", {0, 3}, {3}, [](const Tensor& x) { return x.sum(0); }},
    {"prod", {2, 0}, {2}, [](const Tensor& x) { return x.prod(1); }},
    {"max of the other axis", {0, 3}, {0}, [](const Tensor& x) { return x.max(1); }},
    {"mean", {2, 0}, {2}, [](const Tensor& x) { return x.mean(1); }},
    {"var", {2, 0}, {2}, [](const Tensor& x) { return x.var(1); }},
    {"std", {2, 0}, {2}, [](const Tensor& x) { return x.std(1); }},
    {"logsumexp", {2, 0}, {2}, [](const Tensor& x) { return x.logsumexp(1); }},
    {"softmax", {2, 0}, {2, 0}, [](const Tensor& x) { return x.softmax(); }},
    {"log_softmax", {2, 0}, {2, 0}, [](const Tensor& x) { return x.log_softmax(); }},
    {"cumsum", {0, 3}, {0, 3}, [](const Tensor& x) { return x.cumsum(); }},
    {"cumsum of the other axis", {0, 3}, {0, 3}, [](const Tensor& x) { return x.cumsum(1); }},
    {"cumprod", {0}, {0}, [](const Tensor& x) { return x.cumprod(); }},
    {"cummax", {0, 3}, {0, 3}, [](const Tensor& x) { return x.cummax().first; }},
    {"logcumsumexp", {0}, {0}, [](const Tensor& x) { return x.logcumsumexp(); }},
    {"normalize", {0, 3}, {0, 3}, [](const Tensor& x) { return x.normalize(); }},
    {"layernorm", {0, 3}, {0, 3}, [](const Tensor& x) { return x.layernorm(); }},
    {"sort", {0, 3}, {0, 3}, [](const Tensor& x) { return x.sort().first; }},
    {"sort of the other axis", {3, 0}, {3, 0}, [](const Tensor& x) { return x.sort(0).first; }},
    {"topk", {2, 0}, {2, 0}, [](const Tensor& x) { return x.topk(0).first; }},
    {"gather", {2, 0}, {2, 0}, [](const Tensor& x) { return x.gather(0, indices({2, 0})); }},
    {"gather from nothing", {0, 2}, {3, 2}, [](const Tensor& x) { return x.gather(0, indices({3, 2})); }},
    {"scatter", {2, 0}, {2, 0}, [](const Tensor& x) { return x.scatter(0, indices({2, 0}), 1.0); }},
    {"scatter into nothing",
     {0, 2},
     {0, 2},
     [](const Tensor& x) { return x.scatter(0, indices({1, 2}), 1.0); }},
    {"scatter_reduce",
     {2, 0},
     {2, 0},
     [](const Tensor& x) { return x.scatter_reduce(0, indices({1, 0}), ones({1, 0}), "amax"); }},
    {"at a tensor", {0, 3}, {2, 3}, [](const Tensor& x) { return x.at({indices({2})}); }},
    {"at a slice", {0, 3}, {0, 1}, [](const Tensor& x) { return x.at({Slice{0, 5, 2}, Slice{0, 1}}); }},
    {"at backwards", {0, 3}, {0, 3}, [](const Tensor& x) { return x.at({Slice{{}, {}, -1}}); }},
    {"matmul", {0, 3}, {0, 2}, [](const Tensor& x) { return x.matmul(ones({3, 2})); }},
    {"matmul over nothing", {2, 0}, {2, 2}, [](const Tensor& x) { return x.matmul(ones({0, 2})); }},
    {"matmul of an empty batch",
     {0, 2, 3},
     {0, 2, 2},
     [](const Tensor& x) { return x.matmul(ones({3, 2})); }},
    {"einsum", {2, 0}, {0, 2}, [](const Tensor& x) { return Tensor::einsum("ij->ji", {x}); }},
    {"einsum over nothing", {2, 0}, {2}, [](const Tensor& x) { return Tensor::einsum("ij->i", {x}); }},
    {"linear", {0, 3}, {0, 2}, [](const Tensor& x) { return x.linear(ones({3, 2}), ones({2})); }},
    {"attention", {0, 2, 4}, {0, 2, 4}, [](const Tensor& x) { return x.scaled_dot_product_attention(x, x); }},
    {"attention of no queries",
     {0, 4},
     {0, 4},
     [](const Tensor& x) { return x.scaled_dot_product_attention(ones({3, 4}), ones({3, 4})); }},
    {"attention over no keys",
     {0, 4},
     {2, 4},
     [](const Tensor& x) { return ones({2, 4}).scaled_dot_product_attention(x, x); }},
    {"conv2d", {0, 1, 3, 3}, {0, 2, 2, 2}, [](const Tensor& x) { return x.conv2d(ones({2, 1, 2, 2})); }},
    {"conv2d of no filters",
     {1, 2, 3, 3},
     {1, 0, 2, 2},
     [](const Tensor& x) { return x.conv2d(ones({0, 2, 2, 2})); }},
    {"conv2d of no channels",
     {1, 0, 3, 3},
     {1, 2, 2, 2},
     [](const Tensor& x) { return x.conv2d(ones({2, 0, 2, 2})); }},
    {"conv_transpose2d",
     {0, 1, 3, 3},
     {0, 2, 4, 4},
     [](const Tensor& x) { return x.conv_transpose2d(ones({1, 2, 2, 2})); }},
    {"max_pool2d", {0, 4, 4}, {0, 2, 2}, [](const Tensor& x) { return x.max_pool2d(); }},
    {"max_pool2d_with_indices",
     {0, 4, 4},
     {0, 2, 2},
     [](const Tensor& x) { return x.max_pool2d_with_indices().first; }},
    {"max_unpool2d",
     {0, 2, 2},
     {0, 4, 4},
     [](const Tensor& x) { return x.max_unpool2d(indices({0, 2, 2})); }},
    {"avg_pool2d",
     {0, 4, 4},
     {0, 2, 2},
     [](const Tensor& x) { return x.avg_pool2d(2, {.padding = 0, .ceil_mode = true}); }},
    {"interpolate", {0, 1, 3}, {0, 1, 5}, [](const Tensor& x) { return x.interpolate({5}); }},
    {"batchnorm", {0, 3}, {0, 3}, [](const Tensor& x) { return x.batchnorm({}, {}, ones({3}), ones({3})); }},
    {"qr", {0, 3, 2}, {0, 3, 2}, [](const Tensor& x) { return x.qr().second; }},
    {"newton_schulz", {0, 2, 2}, {0, 2, 2}, [](const Tensor& x) { return x.newton_schulz(2, {1, 2}); }},
    {"cross_entropy", {0, 3}, {0}, [](const Tensor& x) { return x.cross_entropy(indices({0}), "none"); }},
    {"cat", {0, 3}, {2, 3}, [](const Tensor& x) { return Tensor::cat({x, ones({2, 3}), x}); }},
    {"stack", {0, 3}, {2, 0, 3}, [](const Tensor& x) { return Tensor::stack({x, x}); }},
    {"split", {0, 3}, {0, 1}, [](const Tensor& x) { return x.split(1, 1)[2]; }},
    {"chunk", {0, 3}, {0, 3}, [](const Tensor& x) { return x.chunk(2)[1]; }},
    {"pad", {0, 3}, {2, 3}, [](const Tensor& x) { return x.pad({0, 0, 1, 1}); }},
    {"roll", {0, 3}, {0, 3}, [](const Tensor& x) { return x.roll(2, 0); }},
    {"flip", {0, 3}, {0, 3}, [](const Tensor& x) { return x.flip({0, 1}); }},
    {"repeat", {0, 3}, {0, 6}, [](const Tensor& x) { return x.repeat({2, 2}); }},
    {"repeat_interleave", {0, 3}, {0}, [](const Tensor& x) { return x.repeat_interleave(2); }},
    {"unfold", {0, 3}, {0, 2, 2}, [](const Tensor& x) { return x.unfold(1, 2, 1); }},
    {"diagonal", {0, 3}, {0}, [](const Tensor& x) { return x.diagonal(); }},
    {"diag", {0}, {0, 0}, [](const Tensor& x) { return x.diag(); }},
    {"tril", {0, 3}, {0, 3}, [](const Tensor& x) { return x.tril(); }},
    {"rearrange",
     {0, 4},
     {2, 0, 2},
     [](const Tensor& x) { return x.rearrange("a (b c) -> b a c", {{"b", 2}}); }},
    {"bitcast",
     {0, 4},
     {0, 4},
     [](const Tensor& x) { return x.bitcast(dtypes::int32).cast(dtypes::float32); }},
    {"dropout", {0, 4}, {0, 4}, [](const Tensor& x) { return x.dropout(0.5, true); }},
    {"lerp", {0, 4}, {0, 4}, [](const Tensor& x) { return x.lerp(x, 0.5); }},
    {"where", {0, 4}, {0, 4}, [](const Tensor& x) { return x.gt(0).where(x, 1); }},
    {"clone", {0, 4}, {0, 4}, [](const Tensor& x) { return x.clone(); }},
    {"contiguous", {0, 4}, {4, 0}, [](const Tensor& x) { return x.T().contiguous(); }},
};

TEST(Empty, Everywhere) {
  for (const OfNothing& o : kOfNothing) try {
      const Tensor x = tensor_of(Array(dtypes::float32, o.given)), y = o.op(x);
      const Tensor g = y.gradient({x}, y.ones_like(), true)[0];
      EXPECT_EQ(array_of(y).shape, o.result) << o.name;
      EXPECT_EQ(array_of(g).shape, o.given) << o.name;
      EXPECT_EQ(g.dtype(), dtypes::float32) << o.name;
    } catch (const std::exception& e) {
      ADD_FAILURE() << o.name << ": " << e.what();
    }
}

}  // namespace
}  // namespace quern::optest
