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

// None in a tuple stands for the size of the axis.
IntList output_sizes(const Tensor& x, nb::handle given) {
  if (!is_sequence(given)) return int_list(given);
  Ints sizes;
  const auto count = static_cast<int64_t>(nb::len(given));
  for (nb::handle size : nb::borrow<nb::sequence>(given)) {
    const int64_t axis = std::ssize(sizes) - count;
    if (size.is_none() && -axis > x.ndim())
      throw ShapeError("adaptive pooling: " + std::to_string(count) + " sizes for a tensor of shape " +
                       shape_text(x.shape()));
    sizes.push_back(size.is_none() ? x.size(axis).value()
                                   : integer(size, "an int or None as the size of the output"));
  }
  return sizes;
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
  tensor.def("mm", &Tensor::mm, "mat2"_a, "The product of two matrices.");
  tensor.def("bmm", &Tensor::bmm, "mat2"_a, "The products of as many matrices on both sides.");
  tensor.def("mv", &Tensor::mv, "vec"_a, "The product of a matrix and a vector.");
  for (const char* name : {"outer", "ger"})
    tensor.def(name, &Tensor::outer, "vec2"_a, "All products of the elements of two vectors.");
  tensor.def("addmm", &Tensor::addmm, "mat1"_a, "mat2"_a, nb::kw_only(), "beta"_a = 1.0, "alpha"_a = 1.0,
             "beta * this + alpha * mat1 @ mat2.");
  tensor.def("baddbmm", &Tensor::baddbmm, "batch1"_a, "batch2"_a, nb::kw_only(), "beta"_a = 1.0,
             "alpha"_a = 1.0, "beta * this + alpha * batch1 @ batch2, of as many matrices.");
  tensor.def(
      "tensordot",
      [](const Tensor& x, const Tensor& other, nb::handle dims) {
        if (!is_sequence(dims))
          return x.tensordot(other, integer(dims, "an int, or two lists of axes, as dims"));
        if (nb::len(dims) != 2) wrong_type("an int, or two lists of axes, as dims", dims);
        const nb::sequence both = nb::borrow<nb::sequence>(dims);
        return x.tensordot(other, int_list(both[0]).values(), int_list(both[1]).values());
      },
      "other"_a, "dims"_a = 2,
      "Products summed over the last axes of this and the first of the other, or over those given.");
  tensor.def("kron", &Tensor::kron, "other"_a, "Each element by the whole of the other.");
  tensor.def("trace", &Tensor::trace, "The sum of the diagonal of a matrix.");
  tensor.def("cross", &Tensor::cross, "other"_a, "dim"_a = nb::none(),
             "The cross product along an axis of three elements, the first such unless it is given.");
  tensor.def("cdist", &Tensor::cdist, "x2"_a, "p"_a = 2.0,
             "The distance of each row to each row of the other.");
  tensor.def("cosine_similarity", &Tensor::cosine_similarity, "x2"_a, "dim"_a = 1, "eps"_a = 1e-8,
             "The cosine of the angle between them, along an axis.");
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
      "adaptive_avg_pool2d",
      [](const Tensor& x, nb::handle size) { return x.adaptive_avg_pool2d(output_sizes(x, size)); },
      "output_size"_a, "As many means of windows along the last axes; None keeps the size of an axis.");
  tensor.def(
      "adaptive_max_pool2d",
      [](const Tensor& x, nb::handle size) { return x.adaptive_max_pool2d(output_sizes(x, size)); },
      "output_size"_a,
      "The greatest of as many windows along the last axes; None keeps the size of an axis.");
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
  tensor.def("binary_cross_entropy", &Tensor::binary_cross_entropy, "target"_a, reduction,
             "Cross entropy of probabilities.");
  tensor.def("binary_cross_entropy_with_logits", &Tensor::binary_cross_entropy_with_logits, "target"_a,
             reduction, "pos_weight"_a = nb::none(), "Cross entropy of logits.");
  tensor.def("mse_loss", &Tensor::mse_loss, "target"_a, reduction, "The mean of the squared differences.");
  tensor.def("l1_loss", &Tensor::l1_loss, "target"_a, reduction, "The mean of the absolute differences.");
  tensor.def("smooth_l1_loss", &Tensor::smooth_l1_loss, "target"_a, reduction, "beta"_a = 1.0,
             "The mean of |d| - beta / 2, or d * d / (2 * beta) of differences d within beta.");
  tensor.def("huber_loss", &Tensor::huber_loss, "target"_a, reduction, "delta"_a = 1.0,
             "The mean of delta * (|d| - delta / 2), or d * d / 2 of differences d within delta.");
  tensor.def("kl_div", &Tensor::kl_div, "target"_a, reduction, "log_target"_a = false,
             "The divergence of these log probabilities from probabilities, or from their logarithms; "
             "reduction 'batchmean' divides the sum by the size of the first axis.");
}

}  // namespace quern::python
