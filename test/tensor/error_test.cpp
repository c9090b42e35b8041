// Wrong use: each call is refused, with a text that says what was given and what was expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "quern/base/env.h"
#include "test/error_of.h"
#include "test/tensor/values.h"

namespace quern {
namespace {

struct WrongCall {
  std::function<void()> call;
  const char* text;  // is part of the message
};

class WrongUse : public testing::Test {
 protected:
  Tensor x = Tensor::empty({2, 3}), i = Tensor::empty({2, 3}, {.dtype = dtypes::int32});
  Tensor b = Tensor::empty({2, 3}, {.dtype = dtypes::bool_}), v = Tensor::empty({4}),
         image = Tensor::empty({1, 4, 5, 5});
  Tensor scalar = Tensor::empty({}), iv = Tensor::empty({4}, {.dtype = dtypes::int64});

  static void check(const std::vector<WrongCall>& cases) {
    for (size_t n = 0; n < cases.size(); n++)
      EXPECT_THAT(error_of(cases[n].call), testing::HasSubstr(cases[n].text)) << "case " << n;
  }
};

TEST_F(WrongUse, OneElementAsAnotherType) {
  const auto one = [](auto value) { return Tensor::full({}, value); };
  check({
      {[&] { (void)one(1.5).item<int>(); }, "item: the tensor is float32 (), asked for int32; cast it first"},
      {[&] { (void)one(2.0).item<int64_t>(); }, "item: the tensor is float32 (), asked for int64"},
      {[&] { (void)one(1.0).item<bool>(); }, "item: the tensor is float32 (), asked for bool"},
      {[&] { (void)one(300).item<uint8_t>(); }, "item: 300 is no value of uint8"},
      {[&] { (void)one(-1).item<uint64_t>(); }, "item: -1 is no value of uint64"},
  });
  EXPECT_EQ(one(1.5).item<double>(), 1.5);
  EXPECT_EQ(one(7).item<int64_t>(), 7);
  EXPECT_EQ(one(7).item<float>(), 7);
  EXPECT_EQ(one(true).item<int>(), 1);
  EXPECT_EQ(one(7).item<bool>(), true);
}

TEST_F(WrongUse, Making) {
  check({
      {[&] { Tensor::zeros({2, -3}); }, "zeros: negative size in (2, -3)"},
      {[&] { Tensor::zeros({int64_t{1} << 40, int64_t{1} << 40}); }, "more than 2^63 elements"},
      {[&] { Tensor::ones({2}, {.dtype = dtypes::index}); }, "ones: a tensor cannot hold index"},
      {[&] { Tensor::ones({2}, {.dtype = dtypes::float32.vec(4)}); }, "cannot hold float32x4"},
      {[&] { Tensor::full({2}, 300, {.dtype = dtypes::uint8}); }, "300"},
      {[&] { Tensor::empty({int64_t{1} << 40, Variable("n", 1, int64_t{1} << 40).bind(3)}); },
       "more than 2^63 elements"},
      {[&] { Variable("n", 1, 9).bind(10); }, "bind: 10 is outside the bounds of variable n, 1 to 9"},
      {[&] { Tensor::arange(0, 5, 0); }, "arange: the step is 0"},
      {[&] { Tensor::arange(0, 1e300); }, "are too many"},
      {[&] { Tensor::arange(0, 2, 0.5, {.dtype = dtypes::int32}); }, "are not integers, int32 is asked for"},
      {[&] { Tensor::arange(std::nan(""), 1); }, "must be finite"},
      {[&] { Tensor::linspace(0, 1, -2); }, "linspace: -2 steps"},
      {[&] { Tensor::eye(-1); }, "eye: -1 rows"},
      {[&] { Tensor::meshgrid({x}); }, "meshgrid: tensor 0 has shape (2, 3)"},
      {[&] { Tensor::meshgrid({v}, "yx"); }, "indexing \"yx\" is neither"},
      {[&] { x.one_hot(3); }, "one_hot: the indices must be integers, given float32 (2, 3)"},
      {[&] { i.one_hot(-3); }, "-3 classes"},
      {[&] { v.tril(); }, "tril: needs at least 2 axes, given (4,)"},
      {[&] { image.diag(); }, "diag: needs one or two axes"},
      {[&] { Tensor::rand({2}, {.dtype = dtypes::int32}); }, "rand: needs a float type, given int32"},
      {[&] { Tensor::randint({2}, 5, 5); }, "randint: low 5 must be below high 5"},
      {[&] { Tensor::randint({2}, 0, 1000, {.dtype = dtypes::int8}); }, "999"},
      {[&] { Tensor::randperm(-1); }, "randperm: -1 elements"},
      {[&] { x.dropout(1.5); }, "dropout: p is 1.5; it must be in [0, 1]"},
      {[&] { image.multinomial(1); }, "multinomial: needs one or two axes"},
      {[&] { v.multinomial(9); }, "9 samples of 4 without replacement"},
      {[&] { Tensor::kaiming_uniform({}); }, "a shape of no axes has no inputs"},
      {[&] { Tensor::random_bits({2}, {.dtype = dtypes::int32}); }, "needs uint32 or uint64, given int32"},
      {[&] { Tensor{UOp{}}; }, "Tensor: an empty node"},
      {[&] { Tensor{UOp::index(3)}; }, "no dtype index"},
      {[&] { set_default_float(dtypes::int32); }, "int32 is not a float type"},
      {[&] { Variable("n", 1, 4).bind(5); }, "5 is outside the bounds of variable n, 1 to 4"},
  });
}

TEST_F(WrongUse, DefaultsOfTheEnvironment) {
  for (const std::string text : {"float46", "int32", "float32x4", " ", "float32*[4]"}) {
    const env::Override given("DEFAULT_FLOAT", text);
    EXPECT_EQ(error_of([] { Tensor::zeros({2}); }),
              "DEFAULT_FLOAT=" + text + ": DEFAULT_FLOAT is the name of a float type");
  }
  for (const std::string text : {"float32", "bool", "index"}) {
    const env::Override given("DEFAULT_INT", text);
    EXPECT_EQ(error_of([] { Tensor::arange(2); }),
              "DEFAULT_INT=" + text + ": DEFAULT_INT is the name of an integer type");
  }
}

TEST_F(WrongUse, Shape) {
  check({
      {[&] { x.reshape({4, 2}); }, "reshape: (2, 3) has 6 elements, (4, 2) has 8"},
      {[&] { x.reshape({-1, -1}); }, "more than one -1"},
      {[&] { x.reshape({-1, 4}); }, "-1 stands for no size"},
      {[&] { x.reshape({-1, 0}); }, "-1 stands for no size"},
      {[&] { x.reshape({-2, -3}); }, "negative size"},
      {[&] { x.expand({2, 4}); }, "(2, 3) cannot be broadcast to (2, 4): axis 1 is 3, not 1 or 4"},
      {[&] { x.expand({3}); }, "expand: (2, 3) has more axes than (3,)"},
      {[&] { x.permute({0}); }, "permute: [0] names 1 axes of (2, 3)"},
      {[&] { x.permute({0, 0}); }, "axis 0 is named twice"},
      {[&] { x.permute({0, 2}); }, "axis 2 is not in [-2, 1]"},
      {[&] { x.transpose(0, 5); }, "transpose: axis 5 is not in [-2, 1]"},
      {[&] { x.flatten(1, 0); }, "the first axis 1 is behind the last 0"},
      {[&] { x.squeeze(7); }, "squeeze: axis 7"},
      {[&] { x.unsqueeze(4); }, "unsqueeze: axis 4 is not in [-3, 2]"},
      {[&] { x.shrink({{{0, 3}}, std::nullopt}); }, "axis 0 is 2 long, asked for [0, 3)"},
      {[&] { x.shrink({{{2, 1}}, std::nullopt}); }, "asked for [2, 1)"},
      {[&] { x.shrink({std::nullopt}); }, "1 bounds for the 2 axes"},
      {[&] { x.pad({1}); }, "pad: 1 numbers for (2, 3)"},
      {[&] { x.pad({1, 1}, "mirror"); }, "mode \"mirror\" is not"},
      {[&] { x.pad({3, 0}, "reflect"); }, "mode reflect cannot pad axis 1 of (2, 3) by (3, 0)"},
      {[&] { x.pad({-2, -2}); }, "takes more than the 3 elements of axis 1"},
      {[&] { x.pad_to({1, 3}); }, "axis 0 is 2 long, more than 1"},
      {[&] { x.flip({0, 0}); }, "flip: axis 0 is named twice"},
      {[&] { x.roll({1, 2}, 0); }, "roll: 2 shifts for 1 axes"},
      {[&] { x.repeat({2}); }, "repeat: 1 numbers for the 2 axes"},
      {[&] { Tensor::cat({}); }, "cat: no tensors"},
      {[&] { Tensor::cat({x, v}); }, "tensor 1 has shape (4,), the first (2, 3); only axis 0 may differ"},
      {[&] { Tensor::stack({x, v}); }, "stack: shapes (2, 3) and (4,) differ"},
      {[&] { x.split({1, 1}, 1); }, "parts [1, 1] do not add up to 3"},
      {[&] { x.split(0); }, "parts of 0 elements"},
      {[&] { x.chunk(0); }, "chunk: 0 chunks"},
      {[&] { v.unfold(0, 5, 1); }, "windows of 5 elements over axis 0 of 4"},
      {[&] { x.diagonal(0, 1, 1); }, "axis 1 is named twice"},
      {[&] { x.rearrange("a b"); }, "one \"->\""},
      {[&] { x.rearrange("a b -> a"); }, "b is on the left only"},
      {[&] { x.rearrange("a b -> a b c"); }, "c is on the right only"},
      {[&] { x.rearrange("a (b c) -> a b c"); }, "the sizes of both b and c are unknown"},
      {[&] { x.rearrange("a (b c) -> a b c", {{"b", 2}}); }, "axis 1 of size 3 cannot be divided by 2"},
      {[&] { x.rearrange("(a -> a"); }, "a ( without its )"},
      {[&] { v.interpolate({2}, "cubic"); }, "mode \"cubic\" is not"},
      {[&] { v.interpolate({0}); }, "axis 0 from 4 to 0 elements"},
      {[&] { scalar.len(); }, "has no length"},
      {[&] { x.size(2); }, "size: axis 2 is not in [-2, 1]"},
  });
}

TEST_F(WrongUse, Indexing) {
  check({
      {[&] { x.at({2}); }, "index 2 is out of bounds for axis 0 of size 2"},
      {[&] { x.at({0, -4}); }, "index -4 is out of bounds for axis 1 of size 3"},
      {[&] { x.at({0, 0, 0}); }, "3 indices for the 2 axes of (2, 3)"},
      {[&] { x.at({ellipsis, ellipsis}); }, "more than one ellipsis"},
      {[&] { x.at({Slice{0, 2, 0}}); }, "step 0"},
      {[&] { x.at({x}); }, "indices are integers or bools"},
      {[&] { x.at({Tensor::full({3}, true)}); }, "a mask of shape (3,) does not fit axis 0 of (2, 3)"},
      {[&] { x.at({Tensor::arange(2), Tensor::arange(3)}); }, "shapes (2,) and (3,) cannot be broadcast"},
      {[&] { x.gather(0, v); }, "the indices must be integers"},
      {[&] { x.gather(0, iv); }, "as many axes are needed"},
      {[&] { x.gather(0, Tensor::zeros({1, 4}, {.dtype = dtypes::int32})); },
       "axis 1 of the indices (1, 4) is longer"},
      {[&] { x.scatter(0, i, x, "max"); }, "reduce is \"max\""},
      {[&] { x.scatter(0, i, i); }, "the source is int32, the tensor float32"},
      {[&] { x.scatter_reduce(0, i, x, "median"); }, "reduce is \"median\""},
      {[&] { x.masked_fill(x, 0); }, "the mask must be bool"},
      {[&] { x.masked_select(i); }, "the mask must be bool"},
      {[&] { v.topk(5); }, "topk: k is 5, axis 0 has 4 elements"},
      {[&] { x.sort(2); }, "sort: axis 2"},
      {[&] { x.set({0}, i); }, "set: the value is int32"},
      {[&] { x.set({0}, v); }, "(4,) cannot be broadcast to (3,)"},
      {[&] { x.assign(i); }, "assign: the value is int32, the tensor float32; cast it"},
      {[&] { x.assign(v); }, "assign: (4,) cannot be broadcast to (2, 3)"},
      {[&] { Tensor::empty({1, 3}).expand({2, 3}).assign(1); }, "an expanded view"},
      {[&] { x.replace(v); }, "the shape must stay"},
  });
}

TEST_F(WrongUse, Arithmetic) {
  check({
      {[&] { (void)(x + v); }, "add: shapes (2, 3) and (4,) cannot be broadcast together: sizes 3 and 4"},
      {[&] { (void)(x & x); }, "bitwise_and: needs integers or bools, given float32"},
      {[&] { (void)~x; }, "bitwise_not: needs integers or bools"},
      {[&] { x.lshift(1); }, "lshift: needs integers, given float32"},
      {[&] { i.floordiv(0); }, "floordiv: division of integers by 0"},
      {[&] { i.mod(0); }, "mod: division of integers by 0"},
      {[&] { x.div(2, "up"); }, "rounding \"up\""},
      {[&] { i.pow(-1); }, "pow: an integer to the power -1"},
      {[&] { x.where(1, 0); }, "where: the condition must be bool, given float32 (2, 3)"},
      {[&] { x.cast(dtypes::void_); }, "a tensor cannot hold void"},
      {[&] { x.bitcast(dtypes::bool_); }, "bool has no fixed bits"},
      {[&] { Tensor::empty({3}, {.dtype = dtypes::uint8}).bitcast(dtypes::int32); },
       "must be a multiple of 4"},
      {[&] { i.lerp(x, 1); }, "lerp: needs floats"},
      {[&] { x.threefry(x); }, "counter and key must be uint64"},
      {[&] { x.isclose(x, -1); }, "must not be negative"},
      {[&] { x.gelu("fast"); }, "approximate is \"fast\""},
      {[&] { x.softplus(0); }, "beta is 0"},
      {[&] { x.hardtanh(1, 0); }, "the least value 1 is above the greatest 0"},
      {[&] { (void)(Tensor::empty({2}, {.device = "A"}) + Tensor::empty({2}, {.device = "B"})); },
       "one tensor is on A, another on B"},
      {[&] { (void)(Tensor::empty({2}, {.dtype = dtypes::uint8}) + 256); }, "256"},
      {[&] { i.set_requires_grad(); }, "gradients need floats"},
      {[&] { x.set_grad(v); }, "the gradient has shape (4,), the tensor (2, 3)"},
      {[&] { x.to(""); }, "the name of the device is empty"},
      {[&] { v.shard({"A", "B", "C"}, 0); }, "cannot be divided evenly among 3 devices"},
  });
}

TEST_F(WrongUse, Reductions) {
  check({
      {[&] { x.sum(2); }, "sum: axis 2 is not in [-2, 1]"},
      {[&] { x.sum({0, -2}); }, "sum: axis 0 is named twice in [0, -2]"},
      {[&] { Tensor::zeros({0, 2}).max(); }, "max: axis 0 of (0, 2) is empty"},
      {[&] { Tensor::zeros({0}).argmin(); }, "argmin: axis 0 of (0,) is empty"},
      {[&] { x.softmax(3); }, "softmax: axis 3"},
      {[&] { x.softmax(0, dtypes::int32); }, "softmax: int32 is not a float type"},
      {[&] { x.cumsum(2); }, "cumsum: axis 2"},
      {[&] { x.normalize(0); }, "normalize: p is 0"},
      {[&] { scalar.sum(1); }, "sum: axis 1 of a tensor of no axes"},
  });
}

TEST_F(WrongUse, Layers) {
  const Tensor w = Tensor::empty({2, 3, 3, 3});
  check({
      {[&] { x.matmul(x); }, "matmul: shapes (2, 3) and (2, 3): 3 columns against 2 rows"},
      {[&] { x.matmul(scalar); }, "both need at least one axis, given (2, 3) and ()"},
      {[&] { image.conv2d(w); }, "conv2d: weight has 3 input channels, input has 4 (groups=1)"},
      {[&] { x.conv2d(w); }, "need the same number of axes"},
      {[&] { image.conv2d(w, {}, {.groups = 0}); }, "groups is 0; it must be positive"},
      {[&] { image.conv2d(w, {}, {.groups = 3}); }, "2 output channels cannot be divided into 3 groups"},
      {[&] { image.conv2d(Tensor::empty({2, 4, 9, 9})); },
       "the kernel reaches over 9 elements, axis 2 of the padded input has 5"},
      {[&] { image.conv2d(Tensor::empty({2, 4, 3, 3}), {}, {.stride = {1, 1, 1}}); },
       "stride has 3 numbers, expected 1 or 2"},
      {[&] { image.conv2d(Tensor::empty({2, 4, 3, 3}), {}, {.stride = 0}); }, "each must be at least 1"},
      {[&] { image.conv2d(Tensor::empty({2, 4, 3, 3}), {}, {.padding = -1}); },
       "padding is [-1]; it must not be negative"},
      {[&] { image.conv2d(Tensor::empty({2, 4, 3, 3}), v); }, "bias has shape (4,), expected (2,)"},
      {[&] { image.conv_transpose2d(w); }, "weight has 2 input channels, input has 4"},
      {[&] { image.conv_transpose2d(Tensor::empty({4, 2, 3, 3}), {}, {.output_padding = 1}); },
       "output_padding 1 must be below"},
      {[&] { image.max_pool2d({6, 6}); }, "the window reaches over 6 elements, axis -2 has 5"},
      {[&] { image.avg_pool2d(0); }, "each must be at least 1"},
      {[&] { image.max_unpool2d(image); }, "the indices must be integers"},
      {[&] { Tensor::einsum("ij,jk", {x}); }, "2 terms for 1 tensors"},
      {[&] { Tensor::einsum("ijk", {x}); }, "the term \"ijk\" has 3 letters for 2 axes"},
      {[&] { Tensor::einsum("ij,ik->k", {x, v.reshape({4, 1})}); }, "'i' is 2 and 4"},
      {[&] { Tensor::einsum("ij->k", {x}); }, "'k' of the result is in no term"},
      {[&] { Tensor::einsum("ij->ii", {x}); }, "'i' is twice in the result"},
      {[&] { Tensor::einsum("i1->i", {x}); }, "'1' is not a letter"},
      {[&] { x.scaled_dot_product_attention(image, image); }, "do not fit"},
      {[&] { x.scaled_dot_product_attention(x, x, b, {.causal = true}); }, "give a mask or causal, not both"},
      {[&] { i.qr(); }, "qr: needs floats"},
      {[&] { v.svd(); }, "svd: needs at least 2 axes"},
      {[&] { x.newton_schulz(1, {}); }, "no coefficients"},
      {[&] { x.batchnorm({}, {}, v, v); }, "batchnorm: mean has shape (4,)"},
      {[&] { x.sequential({{}}); }, "one of the layers is an empty function"},
      {[&] { x.cross_entropy(x, "avg"); }, "reduction is \"avg\""},
      {[&] { x.cross_entropy(iv); }, "classes have shape (4,), expected (2,)"},
      {[&] { x.cross_entropy(v); }, "differ in shape"},
      {[&] { x.cross_entropy(x, "mean", 2); }, "label_smoothing is 2"},
      {[&] { x.sparse_categorical_crossentropy(v); }, "the targets must be integers"},
      {[&] { x.nll_loss(Tensor::zeros({2}, {.dtype = dtypes::int32}), v); },
       "weight has shape (4,), expected (3,)"},
      {[&] { x.binary_crossentropy(v); }, "differ in shape"},
      {[&] { custom_kernel({}, {}); }, "no arguments"},
      {[&] { custom_kernel({x}, {}); }, "an empty function"},
      {[&] { custom_kernel({x}, [](const UOps& p) { return p[0]; }); }, "the body gave PARAM, not a SINK"},
  });
}

}  // namespace
}  // namespace quern
