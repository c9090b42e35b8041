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

double norm_order(nb::handle p) {
  if (p.is_none()) return 2;
  if (nb::isinstance<nb::str>(p)) {
    const std::string name = text(p, "the order of a norm");
    if (name != "fro") throw ValueError("norm: p is '" + name + "', expected a number or 'fro'");
    return 2;
  }
  if (!is_number(p)) wrong_type("a number or 'fro' as the order of a norm", p);
  return nb::cast<double>(p);
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
      {"amax", &Tensor::amax, "max()."},
      {"amin", &Tensor::amin, "min()."},
      {"nansum", &Tensor::nansum, "The sum of what is not NaN."},
      {"nanmean", &Tensor::nanmean, "The mean of what is not NaN."},
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
  along(tensor, "count_nonzero", &Tensor::count_nonzero, axis, "How many elements are not zero.");
  const auto dim = "dim"_a = nb::none();
  tensor.def(
      "norm",
      [](const Tensor& x, nb::handle p, const Axes& axes, bool given_keepdim, std::optional<DType> to) {
        return (to ? x.cast(*to) : x).norm(norm_order(p), axes, given_keepdim);
      },
      "p"_a = "fro", "dim"_a = nb::none(), keepdim, dtype,
      "sum(|x|^p)^(1 / p), over all axes or those given; p: a number, also 0, inf and -inf, or 'fro' for 2.");
  tensor.def(
      "aminmax",
      [](const Tensor& x, std::optional<int64_t> at, bool keep) {
        const auto [least, greatest] = x.aminmax(at, keep);
        return named_pair("MinMax", least, greatest);
      },
      nb::kw_only(), dim, keepdim, "The least and the greatest element: (min, max).");
  tensor.def(
      "median",
      [](const Tensor& x, std::optional<int64_t> at, bool keep) -> nb::object {
        if (!at) return nb::cast(x.median());
        return values_and_indices(x.median(*at, keep));
      },
      dim, keepdim,
      "The element in the middle, the lower one of two; along an axis: (values, indices). NaN if there is "
      "one.");
  tensor.def(
      "kthvalue",
      [](const Tensor& x, int64_t k, int64_t at, bool keep) {
        return values_and_indices(x.kthvalue(k, at, keep));
      },
      "k"_a, "dim"_a = -1, keepdim, "The k-th least element, from 1, along an axis: (values, indices).");
  tensor.def(
      "quantile", &Tensor::quantile, "q"_a, dim, keepdim,
      "The value below which the part q of the elements is, between two in proportion. The quantiles of "
      "several q are the first axis.");
  tensor.def("diff", &Tensor::diff, "n"_a = 1, "dim"_a = -1, "Differences of neighbours, n times.");
  const auto last = "axis"_a = -1;
  along(tensor, "softmax", &Tensor::softmax, last, dtype, "exp(x) / sum(exp(x)) along an axis.");
  along(tensor, "softmin", &Tensor::softmin, last, dtype, "softmax(-x).");
  along(tensor, "log_softmax", &Tensor::log_softmax, last, dtype, "log(softmax(x)), without overflow.");
  tensor.def("normalize", &Tensor::normalize, "p"_a = 2.0, "dim"_a = 1, "eps"_a = 1e-12,
             "Divided by its p-norm along an axis, which is at least eps.");
  const auto first = "axis"_a = 0;
  along(tensor, "cumsum", &Tensor::cumsum, first, "The sum of all elements up to each, along an axis.");
  along(tensor, "cumprod", &Tensor::cumprod, first, "The product of all elements up to each.");
  along(
      tensor, "cummax", [](const Tensor& x, int64_t at) { return values_and_indices(x.cummax(at)); }, first,
      "The greatest element so far, and where it is.");
  along(
      tensor, "cummin", [](const Tensor& x, int64_t at) { return values_and_indices(x.cummin(at)); }, first,
      "The least element so far, and where it is.");
  along(tensor, "logcumsumexp", &Tensor::logcumsumexp, first, "log(cumsum(exp(x))), without overflow.");
}

}  // namespace quern::python
