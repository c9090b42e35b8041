// x[...], and looking up elsewhere.
#include <algorithm>

#include "python/src/bind.h"
#include "quern/tensor/core/support.h"

namespace quern::python {
namespace {

using namespace nb::literals;

// A mask's size depends on its values: such an index runs.
Tensor read(const Tensor& x, nb::handle h) { return x.at(indices(x, h)); }

// Numbers of lists and arrays become those of the tensor.
void write(const Tensor& x, nb::handle h, nb::handle given) {
  const std::vector<Index> at = indices(x, h);
  const bool is_one = is_tensor(given) || is_number(given);
  const Operand value = is_one ? operand(given) : Operand(beside(x, given, x.dtype()));
  (void)x.set(at, value);
}

// The first `size` places of a flat mask that are true, and whether there are as many.
struct Places {
  Tensor at, exists;
};
Places first_places(const char* who, const Tensor& mask, int64_t size) {
  if (size < 0)
    throw ValueError(std::string(who) + ": size is " + std::to_string(size) + ", expected 0 or more");
  const Tensor so_far = mask.cast(dtypes::int64).cumsum(0);
  const Tensor wanted = Tensor::arange(size, {.dtype = dtypes::int64});
  const Tensor at = mask.devices().size() > 1
                        ? so_far.unsqueeze(0).le(wanted.unsqueeze(1)).sum(1, false, dtypes::int64)
                        : so_far.searchsorted(wanted, true).cast(dtypes::int64);
  const int64_t last = mask.numel().value() - 1;
  return {at.minimum(last), at.le(last)};
}

// Of as many elements as there are, for which it runs; or of `size`, filled up or cut.
Tensor selected(const Tensor& x, const Tensor& mask, std::optional<int64_t> size, const Operand& fill) {
  if (!size) return x.masked_select(mask);
  if (!mask.dtype().is_bool())
    throw DTypeError("masked_select: the mask must be bool, given " + mask.dtype().name());
  const Tensor values = mask.where(x, x);  // of one shape
  if (values.numel().value() == 0 && *size >= 0)
    return Tensor::full({*size}, fill, {.dtype = x.dtype(), .device = x.device()});
  const Tensor flat = mask.bitwise_or(values.zeros_like({.dtype = dtypes::bool_})).flatten();
  const Places places = first_places("masked_select", flat, *size);
  return places.exists.where(values.flatten().gather(0, places.at), fill).cast(x.dtype());
}

Tensor nonzero(const Tensor& x, std::optional<int64_t> size, const Operand& fill) {
  if (!size) return x.nonzero();
  if ((x.ndim() == 0 || x.numel().value() == 0) && *size >= 0)
    return Tensor::full({*size, x.ndim()}, fill, {.dtype = default_int()});
  const Places places = first_places("nonzero", x.ne(0).flatten(), *size);
  std::vector<Tensor> columns;
  int64_t stride = x.numel().value();
  for (const Dim& d : x.shape()) {
    stride /= d.value();
    columns.push_back(places.at.floordiv(stride).mod(d.value()));
  }
  const Shape sizes = x.shape();
  const auto by_value = [](const Dim& d) { return d.value(); };
  return places.exists.unsqueeze(1)
      .where(Tensor::stack(columns, 1), fill)
      .cast(detail::place_dtype(*std::ranges::max_element(sizes, {}, by_value)));
}

nb::object unique(const Tensor& x, bool return_inverse, bool return_counts) {
  const Tensor::Unique found = x.unique();
  nb::list all;
  all.append(nb::cast(found.values));
  if (return_inverse) all.append(nb::cast(found.inverse));
  if (return_counts) all.append(nb::cast(found.counts));
  return nb::len(all) == 1 ? nb::object(all[0]) : nb::object(nb::tuple(all));
}

bool is_one(const Operand& x) {
  return !x.is_tensor() && x.constant(dtypes::float64).value().as_float() == 1;
}

}  // namespace

void bind_indexing(TensorClass& tensor) {
  tensor.def("__getitem__", &read, "indices"_a.none());
  tensor.def("__setitem__", &write, "indices"_a.none(), "value"_a);
  tensor.def("gather", &Tensor::gather, "dim"_a, "index"_a, "Elements along an axis, by index.");
  tensor.def(
      "scatter",
      [](const Tensor& x, int64_t dim, const Tensor& index, const Operand& src,
         const std::optional<std::string>& reduce) {
        return x.scatter(dim, index, src, reduce.value_or(""));
      },
      "dim"_a, "index"_a, "src"_a, "reduce"_a = nb::none(),
      "This with elements of src put where index says; 'add' or 'multiply' combines them.");
  tensor.def("scatter_reduce", &Tensor::scatter_reduce, "dim"_a, "index"_a, "src"_a, "reduce"_a,
             "include_self"_a = true,
             "Elements of src combined where index says: 'sum', 'prod', 'mean', 'amax' or 'amin'.");
  tensor.def("index_select", &Tensor::index_select, "dim"_a, "index"_a, "Slices along an axis, by index.");
  tensor.def(
      "index_add",
      [](const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, const Operand& alpha) {
        return x.index_add(dim, index, is_one(alpha) ? source : source * alpha);
      },
      "dim"_a, "index"_a, "source"_a, nb::kw_only(), "alpha"_a = 1,
      "This with slices of source, times alpha, added to those along an axis that index names.");
  tensor.def("index_copy", &Tensor::index_copy, "dim"_a, "index"_a, "source"_a,
             "This with slices of source for those along an axis that index names; the last one stays.");
  tensor.def("index_fill", &Tensor::index_fill, "dim"_a, "index"_a, "value"_a,
             "This with a number in all slices along an axis that index names.");
  tensor.def("bincount", &Tensor::bincount, "weights"_a = nb::none(), "minlength"_a = 0,
             "How often each of 0, 1, ... occurs, or the sum of the weights there. Runs: its size depends on "
             "the values.");
  tensor.def(
      "take_along_dim",
      [](const Tensor& x, const Tensor& indices, std::optional<int64_t> dim) {
        return dim ? x.take_along_dim(indices, *dim) : x.flatten().take_along_dim(indices.flatten(), 0);
      },
      "indices"_a, "dim"_a = nb::none(),
      "gather(), where other axes are broadcast; without an axis, of all in one row.");
  tensor.def("masked_fill", &Tensor::masked_fill, "mask"_a, "value"_a, "The value where the mask is true.");
  tensor.def(
      "masked_select", &selected, "mask"_a, "size"_a = nb::none(), "fill_value"_a = 0,
      "The elements where the mask is true, in one row. Runs, unless a size is given: then there are as "
      "many, the last of them fill_value.");
  tensor.def(
      "nonzero", &nonzero, "size"_a = nb::none(), "fill_value"_a = 0,
      "The indices of elements that are not zero, a row each. Runs, unless a size is given: then there "
      "are as many rows, the last of them fill_value.");
  tensor.def(
      "sort",
      [](const Tensor& x, int64_t dim, bool descending) {
        return values_and_indices(x.sort(dim, descending));
      },
      "dim"_a = -1, "descending"_a = false, "Sorted values and where they were.");
  tensor.def("argsort", &Tensor::argsort, "dim"_a = -1, "descending"_a = false,
             "Where the sorted values are.");
  tensor.def(
      "topk",
      [](const Tensor& x, int64_t k, int64_t dim, bool largest, bool sorted) {
        return values_and_indices(x.topk(k, dim, largest, sorted));
      },
      "k"_a, "dim"_a = -1, "largest"_a = true, "sorted_"_a = true,
      "The k greatest (or least) values and where they are.");
  tensor.def(
      "unique", &unique, "return_inverse"_a = false, "return_counts"_a = false,
      "The different values in order, NaN last; on request, which of them each element is, and how often "
      "there is each. Runs.");
  tensor.def("searchsorted", &Tensor::searchsorted, "values"_a, "right"_a = false,
             "How many elements of this sorted tensor are below each of the values; right: or equal to it.");
}

}  // namespace quern::python
