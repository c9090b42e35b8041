// Sums, means and other values of many elements.
#include "python/src/bind.h"

namespace quern::python {

using namespace nb::literals;

namespace {

// f(axis=..., ...), and the same with the name that PyTorch has for it: f(dim=..., ...)
template <class F, class Axis, class... Others>
void along(TensorClass& tensor, const char* name, F f, const Axis& axis, const Others&... others) {
  tensor.def(name, f, axis, others...);
  tensor.def(name, f, nb::kw_only(), "dim"_a.none(), others...);
}

}  // namespace

void bind_reduce(TensorClass& tensor) {
  struct Reduce {
    const char* name;
    Tensor (Tensor::*function)(const Axes&, bool) const;
    const char* doc;
  };
  static constexpr Reduce kReduces[] = {
      {"max", &Tensor::max, "The greatest element, over all axes or those given; NaN if there is one."},
      {"min", &Tensor::min, "The least element, over all axes or those given; NaN if there is one."},
      {"any", &Tensor::any, "Whether an element is not zero."},
      {"all", &Tensor::all, "Whether no element is zero."},
      {"mean", &Tensor::mean, "The mean, over all axes or those given."},
      {"logsumexp", &Tensor::logsumexp, "log(sum(exp(x))), without overflow."},
  };
  for (const Reduce& r : kReduces)
    along(
        tensor, r.name,
        [f = r.function](const Tensor& x, const Axes& axes, bool keepdim) { return (x.*f)(axes, keepdim); },
        "axis"_a = nb::none(), "keepdim"_a = false, r.doc);
  const auto axis = "axis"_a = nb::none();
  const auto keepdim = "keepdim"_a = false;
  const auto dtype = "dtype"_a = nb::none();
  along(tensor, "sum", &Tensor::sum, axis, keepdim, dtype,
        "The sum, over all axes or those given, computed in `dtype`.");
  along(tensor, "prod", &Tensor::prod, axis, keepdim, dtype, "The product, over all axes or those given.");
  const auto correction = "correction"_a = 1.0;
  along(tensor, "var", &Tensor::var, axis, keepdim, correction, "The variance; divided by n - correction.");
  along(tensor, "std", &Tensor::std, axis, keepdim, correction, "The standard deviation; see var().");
  along(tensor, "var_mean", &Tensor::var_mean, axis, keepdim, correction, "The variance and the mean.");
  along(tensor, "std_mean", &Tensor::std_mean, axis, keepdim, correction,
        "The standard deviation and the mean.");
  along(tensor, "argmax", &Tensor::argmax, axis, keepdim,
        "Where the greatest element is, the first of equals.");
  along(tensor, "argmin", &Tensor::argmin, axis, keepdim, "Where the least element is, the first of equals.");
  const auto last = "axis"_a = -1;
  along(tensor, "softmax", &Tensor::softmax, last, dtype, "exp(x) / sum(exp(x)) along an axis.");
  along(tensor, "softmin", &Tensor::softmin, last, dtype, "softmax(-x).");
  along(tensor, "log_softmax", &Tensor::log_softmax, last, dtype, "log(softmax(x)), without overflow.");
  tensor.def("normalize", &Tensor::normalize, "p"_a = 2.0, "dim"_a = 1, "eps"_a = 1e-12,
             "Divided by its p-norm along an axis, which is at least eps.");
  const auto first = "axis"_a = 0;
  along(tensor, "cumsum", &Tensor::cumsum, first, "The sum of all elements up to each, along an axis.");
  along(tensor, "cumprod", &Tensor::cumprod, first, "The product of all elements up to each.");
  along(tensor, "cummax", &Tensor::cummax, first, "The greatest element so far, and where it is.");
  along(tensor, "cummin", &Tensor::cummin, first, "The least element so far, and where it is.");
  along(tensor, "logcumsumexp", &Tensor::logcumsumexp, first, "log(cumsum(exp(x))), without overflow.");
}

}  // namespace quern::python
