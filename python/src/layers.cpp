// Linear algebra, layers and losses.
#include "python/src/bind.h"

namespace quern::python {
namespace {

using namespace nb::literals;

using OptionalTensor = std::optional<Tensor>;
using OptionalDType = std::optional<DType>;

Tensor einsum(const std::string& formula, const nb::args& operands, OptionalDType dtype) {
  std::vector<Tensor> tensors;
  for (nb::handle o : operands) {
    if (is_sequence(o))
      for (nb::handle part : nb::borrow<nb::sequence>(o)) tensors.push_back(tensor(part));
    else
      tensors.push_back(tensor(o));
  }
  return Tensor::einsum(formula, tensors, dtype);
}

Tensor convolved(const Tensor& x, const Tensor& weight, const OptionalTensor& bias, int64_t groups,
                 const IntList& stride, const IntList& dilation, const IntList& padding,
                 OptionalDType dtype) {
  const ConvOptions options{.groups = groups, .stride = stride, .dilation = dilation, .padding = padding};
  if (!dtype) return x.conv2d(weight, bias, options);
  return x.cast(*dtype).conv2d(weight.cast(*dtype), bias ? OptionalTensor(bias->cast(*dtype)) : bias,
                               options);
}

nb::object max_pooled(const Tensor& x, const IntList& kernel, const IntList& stride, const IntList& dilation,
                      const IntList& padding, bool ceil_mode, bool return_indices) {
  const PoolOptions options{
      .stride = stride, .dilation = dilation, .padding = padding, .ceil_mode = ceil_mode};
  if (return_indices) return nb::cast(x.max_pool2d_with_indices(kernel, options));
  return nb::cast(x.max_pool2d(kernel, options));
}

}  // namespace

void bind_layers(TensorClass& tensor) {
  const auto two = nb::make_tuple(2, 2);
  tensor.def("dot", &Tensor::dot, "w"_a, "dtype"_a = nb::none(),
             "The product of matrices (or vectors), summed in `dtype`.");
  tensor.def(
      "matmul",
      [](const Tensor& x, const Tensor& y, bool reverse, OptionalDType dtype) {
        return reverse ? y.dot(x, dtype) : x.dot(y, dtype);
      },
      "x"_a, "reverse"_a = false, "dtype"_a = nb::none(), "The product of matrices.");
  tensor.def_static("einsum", &einsum, "formula"_a, "operands"_a, "dtype"_a = nb::none(),
                    "Products summed by a formula: Tensor.einsum('ij,jk->ik', a, b).");
  tensor.def(
      "linear",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, OptionalDType dtype) {
        if (!dtype) return x.linear(weight, bias);
        return x.cast(*dtype).linear(weight.cast(*dtype), bias ? OptionalTensor(bias->cast(*dtype)) : bias);
      },
      "weight"_a, "bias"_a = nb::none(), "dtype"_a = nb::none(), "x @ weight + bias.");
  tensor.def("conv2d", &convolved, "weight"_a, "bias"_a = nb::none(), "groups"_a = 1, "stride"_a = 1,
             "dilation"_a = 1, "padding"_a = 0, "dtype"_a = nb::none(),
             "A convolution over the last axes (1 to 3, as many as weight has behind its first two).");
  tensor.def(
      "conv_transpose2d",
      [](const Tensor& x, const Tensor& weight, const OptionalTensor& bias, int64_t groups,
         const IntList& stride, const IntList& dilation, const IntList& padding,
         const IntList& output_padding) {
        return x.conv_transpose2d(weight, bias,
                                  {.groups = groups,
                                   .stride = stride,
                                   .dilation = dilation,
                                   .padding = padding,
                                   .output_padding = output_padding});
      },
      "weight"_a, "bias"_a = nb::none(), "groups"_a = 1, "stride"_a = 1, "dilation"_a = 1, "padding"_a = 0,
      "output_padding"_a = 0, "The transpose of a convolution.");
  tensor.def(
      "avg_pool2d",
      [](const Tensor& x, const IntList& kernel, const IntList& stride, const IntList& dilation,
         const IntList& padding, bool ceil_mode, bool count_include_pad) {
        return x.avg_pool2d(kernel, {.stride = stride,
                                     .dilation = dilation,
                                     .padding = padding,
                                     .ceil_mode = ceil_mode,
                                     .count_include_pad = count_include_pad});
      },
      "kernel_size"_a = two, "stride"_a = nb::none(), "dilation"_a = 1, "padding"_a = 0,
      "ceil_mode"_a = false, "count_include_pad"_a = true, "Means of windows.");
  tensor.def("max_pool2d", &max_pooled, "kernel_size"_a = two, "stride"_a = nb::none(), "dilation"_a = 1,
             "padding"_a = 0, "ceil_mode"_a = false, "return_indices"_a = false,
             "The greatest of each window, and where it is.");
  tensor.def(
      "max_unpool2d",
      [](const Tensor& x, const Tensor& indices, const IntList& kernel, const IntList& stride,
         const IntList& dilation, const IntList& padding, const IntList& output_size) {
        return x.max_unpool2d(indices, kernel, {.stride = stride, .dilation = dilation, .padding = padding},
                              output_size.given() ? std::optional<Ints>(output_size.values()) : std::nullopt);
      },
      "indices"_a, "kernel_size"_a = two, "stride"_a = nb::none(), "dilation"_a = 1, "padding"_a = 0,
      "output_size"_a = nb::none(), "Values back to where max_pool2d() found them.");
  tensor.def("batchnorm", &Tensor::batchnorm, "weight"_a.none(), "bias"_a.none(), "mean"_a, "invstd"_a,
             "axis"_a = 1, "(x - mean) * invstd * weight + bias, along an axis.");
  tensor.def("layernorm", &Tensor::layernorm, "axis"_a = -1, "eps"_a = 1e-5,
             "Mean 0 and variance 1 over axes.");
  tensor.def(
      "scaled_dot_product_attention",
      [](const Tensor& x, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout,
         bool causal, bool gqa) {
        return x.scaled_dot_product_attention(key, value, mask,
                                              {.dropout = dropout, .causal = causal, .enable_gqa = gqa});
      },
      "key"_a, "value"_a, "attn_mask"_a = nb::none(), "dropout_p"_a = 0.0, "is_causal"_a = false,
      "enable_gqa"_a = false, "softmax(x @ key.T / sqrt(d)) @ value.");
  tensor.def("qr", &Tensor::qr, "Q, orthogonal, and R, upper triangular, with Q @ R the matrix.");
  tensor.def(
      "svd",
      [](const Tensor& x, bool full_matrices) {
        const Tensor::Svd parts = x.svd(full_matrices);
        return nb::make_tuple(parts.u, parts.s, parts.vh);
      },
      "full_matrices"_a = true, "U, the singular values, and V transposed.");
  tensor.def("newton_schulz", &Tensor::newton_schulz, "steps"_a, "params"_a, "eps"_a = 1e-7,
             "Steps of an iteration towards the nearest orthogonal matrix.");
  tensor.def(
      "sequential",
      [](const nb::object& x, const nb::iterable& layers) {
        nb::object value = x;
        for (nb::handle layer : layers) value = layer(value);
        return value;
      },
      "ll"_a, "The functions one after the other.");

  const auto reduction = "reduction"_a = "mean";
  tensor.def("cross_entropy", &Tensor::cross_entropy, "Y"_a, reduction, "label_smoothing"_a = 0.0,
             "The cross entropy of these logits and classes, or their probabilities.");
  tensor.def("sparse_categorical_crossentropy", &Tensor::sparse_categorical_crossentropy, "Y"_a,
             "ignore_index"_a = -1, "label_smoothing"_a = 0.0, reduction,
             "The cross entropy of logits (last axis) and numbers of classes.");
  tensor.def("nll_loss", &Tensor::nll_loss, "Y"_a, "weight"_a = nb::none(), "ignore_index"_a = nb::none(),
             reduction, "The negative log likelihood of classes, of log probabilities.");
  tensor.def("binary_crossentropy", &Tensor::binary_crossentropy, "Y"_a, reduction,
             "Cross entropy of probabilities.");
  tensor.def("binary_crossentropy_logits", &Tensor::binary_crossentropy_logits, "Y"_a, reduction,
             "pos_weight"_a = nb::none(), "Cross entropy of logits.");
}

}  // namespace quern::python
