// Tensor: what users compute with. A call only adds nodes to a graph; realize() and what asks for numbers
// runs it. A Tensor is a handle: copies of it are the same tensor. Names, order of arguments and defaults are
// those of tinygrad and PyTorch (docs/tensor.md). Wrong arguments throw a quern::Error that says what was
// given and what was expected.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "quern/tensor/core/dim.h"
#include "quern/tensor/core/live.h"
#include "quern/tensor/core/options.h"

namespace quern {

class Operand;          // a tensor or a number
struct Index;           // what may stand between the brackets of x[...]
class View;             // x[...]: read as a tensor, or assigned to
struct TensorOptions {  // where and as what a tensor is made; none: the defaults
  std::optional<DType> dtype = {};
  std::string device = {};
};

// Defaults of the process. Errors for dtypes that are no floats (no integers).
DType default_float();  // DEFAULT_FLOAT of the environment, unless it was set
DType default_int();    // DEFAULT_INT of the environment, unless it was set
void set_default_float(DType dtype);
void set_default_int(DType dtype);
std::string default_device();  // DEVICE of the environment, unless it was set
void set_default_device(const std::string& name);

class Tensor {
 public:
  explicit Tensor(const UOp& uop);  // a node of tensor level that has a value and a shape
  Tensor(const View& view);         // NOLINT(*-explicit-*)
  Tensor(const Tensor& other) : state_(other.state()) {}
  Tensor(Tensor&& other) noexcept : state_(other.is_unread() ? other.state() : std::move(other.state_)) {}
  Tensor& operator=(const Tensor& other);
  Tensor& operator=(Tensor&& other) noexcept;
  Tensor& operator=(const View& view);
  ~Tensor() = default;
  static Tensor of_state(std::shared_ptr<detail::TensorState> state);
  Tensor seen_as(const UOp& view) const;  // `view` sees the values of this tensor: writing one writes both

  // ---- What it is
  UOp uop() const { return state()->get(); }
  DType dtype() const { return uop().dtype(); }
  Shape shape() const;
  int64_t ndim() const;
  int64_t dim() const { return ndim(); }
  Dim size(int64_t axis) const;
  Dim numel() const;
  int64_t len() const;         // of the first axis
  std::string device() const;  // "" of constants: they are everywhere
  Texts devices() const { return uop().device(); }
  bool is_floating_point() const { return dtype().is_float(); }
  const std::shared_ptr<detail::TensorState>& state() const {
    if (is_unread()) read_view();
    return state_;
  }

  // ---- Making
  static Tensor empty(const Shape& shape, const TensorOptions& options = {});
  static Tensor full(const Shape& shape, const Operand& value, const TensorOptions& options = {});
  static Tensor zeros(const Shape& shape, const TensorOptions& options = {});
  static Tensor ones(const Shape& shape, const TensorOptions& options = {});
  // Numbers. If no dtype is asked for: the default integer, or int64 where that does not hold them, of
  // integers.
  static Tensor arange(const Operand& stop, const TensorOptions& options = {});
  static Tensor arange(const Operand& start, const Operand& stop);
  static Tensor arange(const Operand& start, const Operand& stop, const Operand& step,
                       const TensorOptions& options = {});
  static Tensor linspace(double start, double stop, int64_t steps, const TensorOptions& options = {});
  static Tensor eye(const Dim& rows, const std::optional<Dim>& columns = {},
                    const TensorOptions& options = {});
  static std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, const std::string& indexing = "ij");
  // Its value, as a tensor of no axes; of int64 where the default integer does not hold its bounds.
  static Tensor from_dim(const Dim& dim, std::optional<DType> dtype = {});
  Tensor empty_like(const TensorOptions& options = {}) const;
  Tensor full_like(const Operand& value, const TensorOptions& options = {}) const;
  Tensor zeros_like(const TensorOptions& options = {}) const;
  Tensor ones_like(const TensorOptions& options = {}) const;
  Tensor rand_like(const TensorOptions& options = {}) const;
  Tensor randn_like(const TensorOptions& options = {}) const;
  Tensor one_hot(std::optional<int64_t> classes = {}) const;  // without a number: as many as its values need
  Tensor tril(const Dim& diagonal = 0) const;
  Tensor triu(const Dim& diagonal = 0) const;
  Tensor diag() const;

  // Random numbers: Threefry, the same on every device; see random.cpp.
  static void manual_seed(uint64_t seed = 0);
  static Tensor random_bits(const Shape& shape, const TensorOptions& options = {});  // uint32 or uint64
  static Tensor rand(const Shape& shape, const TensorOptions& options = {});         // in [0, 1)
  static Tensor randn(const Shape& shape, const TensorOptions& options = {});
  static Tensor randint(const Shape& shape, int64_t low = 0, int64_t high = 10,
                        const TensorOptions& options = {});
  static Tensor normal(const Shape& shape, double mean = 0, double std = 1,
                       const TensorOptions& options = {});
  static Tensor uniform(const Shape& shape, double low = 0, double high = 1,
                        const TensorOptions& options = {});
  static Tensor scaled_uniform(const Shape& shape, const TensorOptions& options = {});
  static Tensor glorot_uniform(const Shape& shape, const TensorOptions& options = {});
  static Tensor kaiming_uniform(const Shape& shape, double a = 0.01, const TensorOptions& options = {});
  static Tensor kaiming_normal(const Shape& shape, double a = 0.01, const TensorOptions& options = {});
  static Tensor randperm(int64_t n, const TensorOptions& options = {});
  Tensor multinomial(int64_t samples = 1, bool replacement = false) const;
  Tensor dropout(double p = 0.5, std::optional<bool> training = {}) const;  // none: as is_training() says

  // From memory (engine).
  static Tensor from_bytes(const void* data, size_t bytes, const Shape& shape, DType dtype,
                           const std::string& device = "");
  static Tensor from_blob(void* data, const Shape& shape, DType dtype, std::shared_ptr<void> keep_alive,
                          const std::string& device = "");  // not copied
  static Tensor from_file(const std::string& path, std::optional<Shape> shape = {},
                          DType dtype = dtypes::uint8);
  template <class Element>
  static Tensor from(const std::vector<Element>& values, std::optional<Shape> shape = {},
                     const TensorOptions& options = {});

  // ---- Shape
  Tensor reshape(const Shape& shape) const;  // one size may be -1
  Tensor view(const Shape& shape) const { return reshape(shape); }
  Tensor expand(const Shape& shape) const;  // -1 keeps a size; axes may come in front
  Tensor broadcast_to(const Shape& shape) const;
  Tensor permute(const Ints& order) const;
  Tensor transpose(int64_t a = 1, int64_t b = 0) const;
  Tensor T() const;
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  Tensor unflatten(int64_t axis, const Shape& sizes) const;
  Tensor squeeze(std::optional<int64_t> axis = {}) const;
  Tensor unsqueeze(int64_t axis) const;
  Tensor shrink(
      const std::vector<std::optional<std::pair<Dim, Dim>>>& bounds) const;  // [begin, end) of each axis
  // Last axis first. A value that the dtype cannot hold, -inf for integers, makes floats of them.
  Tensor pad(const Ints& padding, const std::string& mode, const Operand& value) const;
  Tensor pad(const Ints& padding, const std::string& mode = "constant") const;
  Tensor pad_axes(const std::vector<std::pair<Dim, Dim>>& padding,
                  const Operand& value) const;  // first axis first
  Tensor shrink_to(const std::vector<std::optional<Dim>>& sizes) const;
  Tensor pad_to(const std::vector<std::optional<Dim>>& sizes) const;
  Tensor flip(const Axes& axes) const;
  Tensor roll(const IntList& shifts, const Axes& axes = {}) const;
  Tensor repeat(const Ints& repeats) const;
  Tensor repeat_interleave(int64_t repeats, std::optional<int64_t> axis = {}) const;
  static Tensor cat(const std::vector<Tensor>& tensors, int64_t axis = 0);
  static Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0);
  std::vector<Tensor> split(const IntList& sizes, int64_t axis = 0) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t axis = 0) const;
  Tensor unfold(int64_t axis, int64_t size, int64_t step) const;
  Tensor diagonal(int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1) const;
  Tensor rearrange(const std::string& formula,
                   const std::vector<std::pair<std::string, int64_t>>& sizes = {}) const;
  Tensor swapaxes(int64_t a, int64_t b) const { return transpose(a, b); }
  Tensor movedim(const Axes& from, const Axes& to) const;  // the other axes keep their order
  Tensor tile(const Ints& repeats) const;  // repeat(); numbers that are missing in front are 1
  Tensor ravel() const { return flatten(); }
  Tensor expand_as(const Tensor& other) const { return expand(other.shape()); }
  Tensor view_as(const Tensor& other) const { return view(other.shape()); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.shape()); }
  std::vector<Tensor> unbind(int64_t axis = 0) const;  // the parts along an axis, without it
  Tensor narrow(int64_t axis, int64_t start, int64_t length) const;
  Tensor select(int64_t axis, int64_t index) const;          // what is at one place of an axis, without it
  static Tensor hstack(const std::vector<Tensor>& tensors);  // behind each other along the second axis
  static Tensor vstack(const std::vector<Tensor>& tensors);  // or the first; vectors are rows
  Tensor pixel_shuffle(int64_t factor) const;                // (c f f, h, w) as (c, h f, w f)
  Tensor pixel_unshuffle(int64_t factor) const;
  Tensor interpolate(const Ints& size, const std::string& mode = "linear", bool align_corners = false) const;

  // ---- Indexing
  Tensor at(const std::vector<Index>& indices) const;
  Tensor set(const std::vector<Index>& indices, const Operand& value) const;  // writes; returns this tensor
  template <class... Indices>
  View operator()(Indices&&... indices) const;
  Tensor gather(int64_t axis, const Tensor& index) const;
  Tensor scatter(int64_t axis, const Tensor& index, const Operand& source,
                 const std::string& reduce = "") const;
  Tensor scatter_reduce(int64_t axis, const Tensor& index, const Tensor& source, const std::string& reduce,
                        bool include_self = true) const;
  Tensor index_select(int64_t axis, const Tensor& index) const;
  // Slices along an axis, one for each index. Of several for one place the last one stays, or all are added.
  Tensor index_add(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor index_copy(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor index_fill(int64_t axis, const Tensor& index, const Operand& value) const;
  // How often each of 0, 1, ... occurs, or the sum of the weights there; floats if there are weights. Runs.
  Tensor bincount(const std::optional<Tensor>& weights = {}, int64_t minlength = 0) const;
  Tensor take_along_dim(const Tensor& index, int64_t axis) const;  // gather(); other axes are broadcast
  Tensor masked_fill(const Tensor& mask, const Operand& value) const;
  Tensor masked_select(const Tensor& mask) const;  // runs: its size depends on the values
  Tensor nonzero() const;                          // runs
  std::pair<Tensor, Tensor> sort(int64_t axis = -1,
                                 bool descending = false) const;  // values, indices; stable
  Tensor argsort(int64_t axis = -1, bool descending = false) const;
  struct Unique;  // values, inverse, counts
  // The different elements from the least to the greatest, NaN last and once, which of them each element is
  // (in the shape of this tensor), and how often there is each. Runs: their number depends on the values.
  Unique unique() const;
  // For each of the values, how many elements of this tensor, sorted along its last axis, are below it;
  // `right`: or equal to it. The other axes are those of the values, or there are none.
  Tensor searchsorted(const Tensor& values, bool right = false) const;
  std::pair<Tensor, Tensor> topk(int64_t k, int64_t axis = -1, bool largest = true, bool sorted = true) const;

  // ---- Elementwise: the dtypes are promoted, numbers take the dtype of the tensor, shapes are broadcast
  Tensor add(const Operand& other) const;
  Tensor sub(const Operand& other) const;
  Tensor mul(const Operand& other) const;
  Tensor div(const Operand& other,
             const std::string& rounding = "") const;  // "": true division, "floor", "trunc"
  Tensor floordiv(const Operand& other) const;
  Tensor mod(const Operand& other) const;   // the sign of the divisor
  Tensor fmod(const Operand& other) const;  // the sign of the dividend
  Tensor pow(const Operand& exponent) const;
  Tensor maximum(const Operand& other) const;
  Tensor minimum(const Operand& other) const;
  Tensor bitwise_and(const Operand& other) const;
  Tensor bitwise_or(const Operand& other) const;
  Tensor bitwise_xor(const Operand& other) const;
  Tensor bitwise_not() const;
  Tensor logical_not() const;
  Tensor lshift(const Operand& other) const;
  Tensor rshift(const Operand& other) const;
  Tensor eq(const Operand& other) const;
  Tensor ne(const Operand& other) const;
  Tensor lt(const Operand& other) const;
  Tensor le(const Operand& other) const;
  Tensor gt(const Operand& other) const;
  Tensor ge(const Operand& other) const;
  Tensor where(const Operand& yes, const Operand& no) const;  // this is the condition
  Tensor lerp(const Tensor& end, const Operand& weight) const;
  Tensor clamp(const Operand& min, const Operand& max) const;
  Tensor clamp_min(const Operand& min) const;
  Tensor clamp_max(const Operand& max) const;
  Tensor copysign(const Operand& other) const;
  Tensor logaddexp(const Operand& other) const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false) const;  // runs
  Tensor atan2(const Operand& x) const;         // the angle of the point (x, this), from -pi to pi
  Tensor hypot(const Operand& other) const;
  Tensor remainder(const Operand& other) const { return mod(other); }
  Tensor logical_and(const Operand& other) const;
  Tensor logical_or(const Operand& other) const;
  Tensor logical_xor(const Operand& other) const;
  Tensor xlogy(const Operand& other) const;                                  // x log(y), 0 where x is 0
  Tensor addcmul(const Tensor& a, const Tensor& b, double value = 1) const;  // this + value a b
  Tensor addcdiv(const Tensor& a, const Tensor& b, double value = 1) const;  // this + value a / b
  Tensor threefry(const Tensor& key) const;
  Tensor cast(DType dtype) const;
  Tensor bitcast(DType dtype) const;
  Tensor f16() const { return cast(dtypes::float16); }
  Tensor bf16() const { return cast(dtypes::bfloat16); }
  Tensor f32() const { return cast(dtypes::float32); }
  Tensor f64() const { return cast(dtypes::float64); }
  Tensor i32() const { return cast(dtypes::int32); }
  Tensor i64() const { return cast(dtypes::int64); }
  Tensor boolean() const { return cast(dtypes::bool_); }

  Tensor neg() const;
  Tensor reciprocal() const;
  Tensor abs() const;
  Tensor sign() const;
  Tensor square() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor trunc() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;  // halves to even
  Tensor exp() const;
  Tensor exp2() const;
  Tensor log() const;
  Tensor log2() const;
  Tensor log10() const;
  Tensor log1p() const;
  Tensor expm1() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor asin() const;
  Tensor acos() const;
  Tensor atan() const;
  Tensor sinh() const;
  Tensor cosh() const;
  Tensor tanh() const;
  Tensor asinh() const;
  Tensor acosh() const;
  Tensor atanh() const;
  Tensor erf() const;
  Tensor deg2rad() const;
  Tensor rad2deg() const;
  Tensor frac() const;     // what trunc() takes away
  Tensor signbit() const;  // whether it is negative, -0 included
  // Without a value: the greatest and the least that the dtype has.
  Tensor nan_to_num(double nan = 0, std::optional<double> posinf = {},
                    std::optional<double> neginf = {}) const;
  Tensor logit(std::optional<double> eps = {}) const;  // log(x / (1 - x)), of x kept within [eps, 1 - eps]
  Tensor isnan() const;
  Tensor isinf() const;
  Tensor isfinite() const;

  Tensor sigmoid() const;
  Tensor logsigmoid() const;
  Tensor relu() const;
  Tensor relu6() const;
  Tensor leaky_relu(double slope = 0.01) const;
  Tensor elu(double alpha = 1) const;
  Tensor celu(double alpha = 1) const;
  Tensor selu(double alpha = 1.67326324235437728481, double gamma = 1.05070098735548049342) const;
  Tensor gelu(const std::string& approximate = "tanh") const;  // or "none"
  Tensor quick_gelu() const;
  Tensor silu() const;
  Tensor swish() const { return silu(); }
  Tensor mish() const;
  Tensor softplus(double beta = 1) const;
  Tensor softsign() const;
  Tensor hardsigmoid() const;
  Tensor hardswish() const;
  Tensor hardtanh(double min = -1, double max = 1) const;
  Tensor hardshrink(double lambda = 0.5) const;
  Tensor softshrink(double lambda = 0.5) const;
  Tensor tanhshrink() const;
  Tensor threshold(double threshold, double value) const;
  Tensor prelu(const Tensor& weight) const;  // one slope, or one for each of axis 1
  Tensor glu(int64_t axis = -1) const;       // one half by the sigmoid of the other

  // ---- Reduce: over all axes unless some are named
  Tensor sum(const Axes& axes = {}, bool keepdim = false, std::optional<DType> dtype = {}) const;
  Tensor prod(const Axes& axes = {}, bool keepdim = false, std::optional<DType> dtype = {}) const;
  Tensor max(const Axes& axes = {}, bool keepdim = false) const;
  Tensor min(const Axes& axes = {}, bool keepdim = false) const;
  Tensor any(const Axes& axes = {}, bool keepdim = false) const;
  Tensor all(const Axes& axes = {}, bool keepdim = false) const;
  Tensor mean(const Axes& axes = {}, bool keepdim = false) const;
  Tensor var(const Axes& axes = {}, bool keepdim = false, double correction = 1) const;
  Tensor std(const Axes& axes = {}, bool keepdim = false, double correction = 1) const;
  std::pair<Tensor, Tensor> var_mean(const Axes& axes = {}, bool keepdim = false,
                                     double correction = 1) const;
  std::pair<Tensor, Tensor> std_mean(const Axes& axes = {}, bool keepdim = false,
                                     double correction = 1) const;
  Tensor argmax(std::optional<int64_t> axis = {},
                bool keepdim = false) const;  // the first of equals; NaN wins
  Tensor argmin(std::optional<int64_t> axis = {}, bool keepdim = false) const;
  Tensor logsumexp(const Axes& axes = {}, bool keepdim = false) const;
  Tensor amax(const Axes& axes = {}, bool keepdim = false) const { return max(axes, keepdim); }
  Tensor amin(const Axes& axes = {}, bool keepdim = false) const { return min(axes, keepdim); }
  std::pair<Tensor, Tensor> aminmax(std::optional<int64_t> axis = {}, bool keepdim = false) const;
  Tensor norm(double p = 2, const Axes& axes = {}, bool keepdim = false) const;  // p may be 0 and +-inf
  Tensor nansum(const Axes& axes = {}, bool keepdim = false) const;
  Tensor nanmean(const Axes& axes = {}, bool keepdim = false) const;
  Tensor count_nonzero(const Axes& axes = {}) const;
  Tensor median() const;  // the lower one of two in the middle; NaN if there is one
  std::pair<Tensor, Tensor> median(int64_t axis, bool keepdim = false) const;  // values, indices
  std::pair<Tensor, Tensor> kthvalue(int64_t k, int64_t axis = -1, bool keepdim = false) const;  // from 1
  // Between two elements: in proportion. The quantiles of several numbers are the first axis.
  Tensor quantile(const Operand& q, std::optional<int64_t> axis = {}, bool keepdim = false) const;
  Tensor diff(int64_t n = 1, int64_t axis = -1) const;  // of neighbours, n times
  Tensor softmax(int64_t axis = -1, std::optional<DType> dtype = {}) const;
  Tensor softmin(int64_t axis = -1, std::optional<DType> dtype = {}) const;
  Tensor log_softmax(int64_t axis = -1, std::optional<DType> dtype = {}) const;
  Tensor normalize(double p = 2, int64_t axis = 1, double eps = 1e-12) const;
  Tensor cumsum(int64_t axis = 0) const;
  Tensor cumprod(int64_t axis = 0) const;
  std::pair<Tensor, Tensor> cummax(int64_t axis = 0) const;  // values, indices
  std::pair<Tensor, Tensor> cummin(int64_t axis = 0) const;
  Tensor logcumsumexp(int64_t axis = 0) const;

  // ---- Linear algebra and layers
  Tensor dot(const Tensor& other, std::optional<DType> dtype = {}) const;
  Tensor matmul(const Tensor& other, std::optional<DType> dtype = {}) const { return dot(other, dtype); }
  Tensor mm(const Tensor& other) const;   // of two matrices
  Tensor bmm(const Tensor& other) const;  // of as many matrices
  Tensor mv(const Tensor& vector) const;
  Tensor outer(const Tensor& other) const;  // of two vectors
  Tensor addmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1) const;
  // Over the last axes of this and the first of the other; or over those that are named.
  Tensor tensordot(const Tensor& other, int64_t axes = 2) const;
  Tensor tensordot(const Tensor& other, const Ints& axes, const Ints& other_axes) const;
  Tensor kron(const Tensor& other) const;
  Tensor trace() const;
  // Along an axis of three elements; without one: the first such.
  Tensor cross(const Tensor& other, std::optional<int64_t> axis = {}) const;
  Tensor cdist(const Tensor& other, double p = 2) const;  // of each row to each row: (..., n, m)
  Tensor cosine_similarity(const Tensor& other, int64_t axis = 1, double eps = 1e-8) const;
  static Tensor einsum(const std::string& formula, const std::vector<Tensor>& operands,
                       std::optional<DType> dtype = {});
  Tensor linear(const Tensor& weight, const std::optional<Tensor>& bias = {}) const;  // x @ weight + bias
  Tensor conv2d(const Tensor& weight, const std::optional<Tensor>& bias = {},
                const ConvOptions& options = {}) const;
  Tensor conv_transpose2d(const Tensor& weight, const std::optional<Tensor>& bias = {},
                          const ConvTransposeOptions& options = {}) const;
  Tensor avg_pool2d(const IntList& kernel = {2, 2}, const PoolOptions& options = {}) const;
  Tensor max_pool2d(const IntList& kernel = {2, 2}, const PoolOptions& options = {}) const;
  // As many means, or greatest values, as `size` says: one number for the last two axes, or one an axis.
  Tensor adaptive_avg_pool2d(const IntList& size) const;
  Tensor adaptive_max_pool2d(const IntList& size) const;
  std::pair<Tensor, Tensor> max_pool2d_with_indices(const IntList& kernel = {2, 2},
                                                    const PoolOptions& options = {}) const;
  Tensor max_unpool2d(const Tensor& indices, const IntList& kernel = {2, 2}, const PoolOptions& options = {},
                      const std::optional<Ints>& output_size = {}) const;
  Tensor batchnorm(const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, const Tensor& mean,
                   const Tensor& inverse_std, const Axes& axis = 1) const;
  Tensor layernorm(const Axes& axes = -1, double eps = 1e-5) const;
  Tensor scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                      const std::optional<Tensor>& mask = {},
                                      const AttentionOptions& options = {}) const;
  std::pair<Tensor, Tensor> qr() const;      // Householder; complete Q, R
  struct Svd;                                // U, S, Vh
  Svd svd(bool full_matrices = true) const;  // one-sided Jacobi
  Tensor newton_schulz(int64_t steps, const std::vector<double>& coefficients, double eps = 1e-7) const;
  Tensor sequential(const std::vector<std::function<Tensor(const Tensor&)>>& layers) const;

  // ---- Losses. Reduction: "mean", "sum" or "none"
  Tensor cross_entropy(const Tensor& target, const std::string& reduction = "mean",
                       double label_smoothing = 0) const;
  Tensor sparse_categorical_crossentropy(const Tensor& target, int64_t ignore_index = -1,
                                         double label_smoothing = 0,
                                         const std::string& reduction = "mean") const;
  Tensor nll_loss(const Tensor& target, const std::optional<Tensor>& weight = {},
                  std::optional<int64_t> ignore_index = {}, const std::string& reduction = "mean") const;
  Tensor binary_crossentropy(const Tensor& target, const std::string& reduction = "mean") const;
  Tensor binary_crossentropy_logits(const Tensor& target, const std::string& reduction = "mean",
                                    const std::optional<Tensor>& pos_weight = {}) const;

  Tensor binary_cross_entropy(const Tensor& target, const std::string& reduction = "mean") const {
    return binary_crossentropy(target, reduction);
  }
  Tensor binary_cross_entropy_with_logits(const Tensor& target, const std::string& reduction = "mean",
                                          const std::optional<Tensor>& pos_weight = {}) const {
    return binary_crossentropy_logits(target, reduction, pos_weight);
  }
  Tensor mse_loss(const Tensor& target, const std::string& reduction = "mean") const;
  Tensor l1_loss(const Tensor& target, const std::string& reduction = "mean") const;
  Tensor smooth_l1_loss(const Tensor& target, const std::string& reduction = "mean", double beta = 1) const;
  Tensor huber_loss(const Tensor& target, const std::string& reduction = "mean", double delta = 1) const;
  // Of log probabilities, and of probabilities, or (log_target) their logarithms, too. "batchmean": the sum
  // divided by the size of the first axis.
  Tensor kl_div(const Tensor& target, const std::string& reduction = "mean", bool log_target = false) const;

  // ---- In place: into the memory of this tensor, which they return
  const Tensor& zero_() const;
  const Tensor& fill_(const Operand& value) const;
  const Tensor& copy_(const Tensor& other) const;  // converted, from any device
  const Tensor& add_(const Operand& other, double alpha = 1) const;
  const Tensor& sub_(const Operand& other, double alpha = 1) const;
  const Tensor& mul_(const Operand& other) const;
  const Tensor& div_(const Operand& other) const;
  const Tensor& clamp_(const Operand& min, const Operand& max) const;
  const Tensor& lerp_(const Tensor& end, const Operand& weight) const;
  const Tensor& addcmul_(const Tensor& a, const Tensor& b, double value = 1) const;
  const Tensor& addcdiv_(const Tensor& a, const Tensor& b, double value = 1) const;
  const Tensor& masked_fill_(const Tensor& mask, const Operand& value) const;
  const Tensor& normal_(double mean = 0, double std = 1) const;
  const Tensor& uniform_(double low = 0, double high = 1) const;

  // ---- Memory
  const Tensor& assign(const Operand& value) const;  // into this tensor's memory: views of it see it
  const Tensor& replace(const Tensor& other) const;  // this tensor is another value from now on
  Tensor detach() const;
  Tensor contiguous() const;
  // The same; the kernel that computes it has these opts, "UPCAST(0, 8) UNROLL(1, 4)" (docs/codegen.md).
  Tensor contiguous(const std::string& opts) const;
  Tensor contiguous_backward() const;
  Tensor clone() const;  // with memory of its own
  Tensor to(const std::string& device) const;
  Tensor shard(const std::vector<std::string>& devices, std::optional<int64_t> axis = {}) const;

  // ---- Gradients
  bool requires_grad() const { return state()->requires_grad.value_or(false); }
  bool refuses_grad() const { return !state()->requires_grad.value_or(true); }  // it was set to false
  const Tensor& set_requires_grad(bool value = true) const;  // DTypeError unless it is a float
  std::optional<Tensor> grad() const;
  void set_grad(const std::optional<Tensor>& grad) const;
  void backward(const std::optional<Tensor>& seed = {}) const;
  std::vector<Tensor> gradient(const std::vector<Tensor>& targets, const std::optional<Tensor>& seed = {},
                               bool zeros_if_unused = false) const;

  // ---- Running: defined in engine/realize/, which may include every stage; tensor/ itself only makes graphs
  const Tensor& realize() const;
  static void realize_all(const std::vector<Tensor>& tensors);
  std::string schedule() const;          // the steps that realize() would take, as text
  std::vector<std::byte> bytes() const;  // the elements in order
  template <class Element>
  std::vector<Element> to_vector() const;  // DTypeError unless Element is the C++ type of the dtype
  template <class Element>
  Element item()
      const;  // of a tensor of one element; converted, but no float to an integer, nor what does not fit
  Const item_const() const;

 protected:
  struct Unread {};
  explicit Tensor(Unread) : state_(std::shared_ptr<void>(), unread()) {}  // of a View that was not read yet

 private:
  explicit Tensor(std::shared_ptr<detail::TensorState> state) : state_(std::move(state)) {}

  // What stands for the state of a View until it is read: writing x(mask) reads nothing.
  static detail::TensorState* unread() {
    static std::byte mark;
    return reinterpret_cast<detail::TensorState*>(&mark);
  }
  bool is_unread() const { return state_.get() == unread(); }
  void read_view() const;
  mutable std::shared_ptr<detail::TensorState> state_;
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);  // engine; runs

}  // namespace quern

#include "quern/tensor/core/operand.h"  // IWYU pragma: export
