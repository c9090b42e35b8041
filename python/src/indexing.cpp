// x[...], and looking up elsewhere.
#include "python/src/bind.h"

namespace quern::python {
namespace {

using namespace nb::literals;

// A mask's size depends on its values: such an index runs.
bool has_mask(const std::vector<Index>& all) {
  for (const Index& i : all)
    if (const Tensor* t = std::get_if<Tensor>(&i.value); t != nullptr && t->dtype().is_bool()) return true;
  return false;
}

Tensor read(const Tensor& x, nb::handle h) {
  const std::vector<Index> at = indices(h);
  if (has_mask(at)) return without_lock([&] { return x.at(at); });
  return x.at(at);
}

// Numbers of lists and arrays become those of the tensor.
void write(const Tensor& x, nb::handle h, nb::handle given) {
  const std::vector<Index> at = indices(h);
  const bool is_one = is_tensor(given) || is_number(given);
  const Operand value = is_one ? operand(given) : Operand(tensor_of(given, x.dtype(), ""));
  without_lock([&] { (void)x.set(at, value); });
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
  tensor.def("masked_fill", &Tensor::masked_fill, "mask"_a, "value"_a, "The value where the mask is true.");
  tensor.def(
      "masked_select",
      [](const Tensor& x, const Tensor& m) { return without_lock([&] { return x.masked_select(m); }); },
      "mask"_a, "The elements where the mask is true, in one row. Runs.");
  tensor.def(
      "nonzero", [](const Tensor& x) { return without_lock([&] { return x.nonzero(); }); },
      "The indices of elements that are not zero, a row each. Runs.");
  tensor.def("sort", &Tensor::sort, "dim"_a = -1, "descending"_a = false,
             "Sorted values and where they were.");
  tensor.def("argsort", &Tensor::argsort, "dim"_a = -1, "descending"_a = false,
             "Where the sorted values are.");
  tensor.def("topk", &Tensor::topk, "k"_a, "dim"_a = -1, "largest"_a = true, "sorted_"_a = true,
             "The k greatest (or least) values and where they are.");
}

}  // namespace quern::python
