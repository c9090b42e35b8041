// Shapes.
#include "python/src/bind.h"
#include "quern/tensor/core/support.h"

namespace quern::python {
namespace {

using namespace nb::literals;

Ints ints_of_args(const nb::args& args) {
  return int_list(args.size() == 1 && is_sequence(args[0]) ? nb::handle(args[0]) : nb::handle(args)).values();
}

// None keeps a size.
Shape keeping(const char* who, const Tensor& x, const nb::args& args) {
  const nb::object given = args.size() == 1 && is_sequence(args[0]) ? nb::borrow(args[0]) : nb::borrow(args);
  Shape result;
  for (nb::handle size : given) {
    if (!size.is_none()) {
      result.push_back(dim(size));
      continue;
    }
    if (std::cmp_greater_equal(result.size(), x.ndim()))
      throw ShapeError(std::string(who) + ": None stands for axis " + std::to_string(result.size()) +
                       ", the tensor has shape " + shape_text(x.shape()));
    result.push_back(x.size(static_cast<int64_t>(result.size())));
  }
  return result;
}

std::vector<std::optional<Dim>> optional_sizes(const nb::args& args) {
  const nb::object given = args.size() == 1 && is_sequence(args[0]) ? nb::borrow(args[0]) : nb::borrow(args);
  std::vector<std::optional<Dim>> result;
  for (nb::handle size : given) {
    if (size.is_none())
      result.emplace_back();
    else
      result.emplace_back(dim(size));
  }
  return result;
}

std::pair<Dim, Dim> two(const char* who, nb::handle h) {
  if (!is_sequence(h) || nb::len(h) != 2) wrong_type((std::string(who) + ": a pair of sizes").c_str(), h);
  const nb::sequence pair = nb::borrow<nb::sequence>(h);
  return {dim(pair[0]), dim(pair[1])};
}

// (left, right, top, bottom, ...) from the last axis, or a pair (or None) for each axis.
Tensor padded(const Tensor& given, nb::handle padding, const std::string& mode, const Operand& value) {
  const bool is_zero = !value.is_tensor() && value.constant(dtypes::float64).value().as_float() == 0;
  const Tensor x = value.is_tensor() || is_zero ? given : given.cast(value.dtype_beside(given.dtype()));
  if (!is_sequence(padding)) wrong_type("padding: a tuple of ints, or of pairs", padding);
  bool pairs = nb::len(padding) > 0;
  for (nb::handle p : nb::borrow<nb::sequence>(padding)) pairs = pairs && (p.is_none() || is_sequence(p));
  if (!pairs) {
    if (value.is_tensor()) throw ValueError("pad: the value must be a number");
    bool known = true;
    for (nb::handle p : nb::borrow<nb::sequence>(padding)) known = known && !nb::isinstance<UOp>(p);
    if (known) return x.pad(int_list(padding).values(), mode, value);
  }
  std::vector<std::pair<Dim, Dim>> all;
  if (pairs) {
    for (nb::handle p : nb::borrow<nb::sequence>(padding))
      all.push_back(p.is_none() ? std::pair<Dim, Dim>(0, 0) : two("pad", p));
  } else {
    const Shape flat = shape(padding);
    if (flat.size() % 2 != 0 || std::cmp_greater(flat.size() / 2, x.ndim()))
      throw ShapeError("pad: " + std::to_string(flat.size()) + " numbers for a tensor of shape " +
                       shape_text(x.shape()) + ", which need be two an axis");
    all.assign(static_cast<size_t>(x.ndim()), {0, 0});
    for (size_t i = 0; i < flat.size(); i += 2) all[all.size() - 1 - i / 2] = {flat[i], flat[i + 1]};
  }
  if (mode == "constant") return x.pad_axes(all, value);
  Ints flat;
  for (size_t i = all.size(); i-- > 0;) {
    flat.push_back(all[i].first.value());
    flat.push_back(all[i].second.value());
  }
  return x.pad(flat, mode, value);
}

Tensor padded_to(const Tensor& x, const nb::args& args, const Operand& value) {
  const std::vector<std::optional<Dim>> sizes = optional_sizes(args);
  if (!value.is_tensor() && value.constant(dtypes::float64).value() == Const::of_float(0))
    return x.pad_to(sizes);
  const Shape from = x.shape();
  (void)x.pad_to(sizes);  // what is wrong with the sizes
  std::vector<std::pair<Dim, Dim>> padding;
  for (size_t i = 0; i < from.size(); i++) padding.emplace_back(0, sizes[i] ? *sizes[i] - from[i] : Dim(0));
  return x.pad_axes(padding, value);
}

Tensor shrunk(const Tensor& x, const nb::sequence& bounds) {
  std::vector<std::optional<std::pair<Dim, Dim>>> all;
  for (nb::handle b : bounds) {
    if (b.is_none())
      all.emplace_back();
    else
      all.emplace_back(two("shrink", b));
  }
  return x.shrink(all);
}

// Tensors, and those in lists: of x.cat(y, z) as well as of Tensor.cat([x, y, z]).
std::vector<Tensor> tensors_of(nb::handle first, const nb::args& rest) {
  std::vector<Tensor> all;
  const auto add = [&](nb::handle given) { all.push_back(tensor(given)); };
  const auto add_all = [&](nb::handle given) {
    if (!is_tensor(given) && is_sequence(given))
      for (nb::handle part : nb::borrow<nb::sequence>(given)) add(part);
    else
      add(given);
  };
  add_all(first);
  for (nb::handle r : rest) add_all(r);
  return all;
}

nb::tuple tuple_of(const std::vector<Tensor>& tensors) {
  nb::list all;
  for (const Tensor& t : tensors) all.append(nb::cast(t));
  return nb::tuple(all);
}

Tensor rearranged(const Tensor& x, const std::string& formula, const nb::kwargs& sizes) {
  std::vector<std::pair<std::string, int64_t>> named;
  for (const auto& [name, size] : sizes)
    named.emplace_back(text(name, "the name of an axis"), integer(size, "the size of an axis"));
  return x.rearrange(formula, named);
}

// f(2, 3), f((2, 3)) and f(name=(2, 3)); `more` are arguments behind them.
template <class F, class... More>
void variadic(TensorClass& tensor, const char* function, const char* name, F f, const char* doc,
              More... more) {
  if constexpr (sizeof...(More) == 0) {
    tensor.def(
        function,
        [f](const Tensor& x, const nb::object& all) {
          return f(x, nb::borrow<nb::args>(nb::make_tuple(all)));
        },
        nb::arg(name), doc);
    tensor.def(function, f, nb::arg(name), doc);
  } else {
    tensor.def(
        function,
        [f](const Tensor& x, const nb::object& all, const Operand& value) {
          return f(x, nb::borrow<nb::args>(nb::make_tuple(all)), value);
        },
        nb::arg(name), nb::kw_only(), more..., doc);
    tensor.def(function, f, nb::arg(name), more..., doc);
  }
}

}  // namespace

void bind_movement(TensorClass& tensor) {
  for (const char* name : {"reshape", "view"})
    variadic(
        tensor, name, "shape",
        [name](const Tensor& x, const nb::args& shape) { return x.reshape(keeping(name, x, shape)); },
        "The same elements in another shape. One size may be -1; None keeps that of the axis.");
  variadic(
      tensor, "expand", "shape",
      [](const Tensor& x, const nb::args& args) {
        const std::vector<std::optional<Dim>> given = optional_sizes(args);
        Shape sizes;
        for (const std::optional<Dim>& size : given) sizes.push_back(size.value_or(Dim(-1)));
        return x.expand(sizes);
      },
      "Axes of size 1 repeated; -1 and None keep a size.");
  variadic(
      tensor, "permute", "order",
      [](const Tensor& x, const nb::args& order) { return x.permute(ints_of_args(order)); },
      "The axes in another order.");
  tensor.def("transpose", &Tensor::transpose, "dim0"_a = 1, "dim1"_a = 0, "Two axes exchanged.");
  tensor.def_prop_ro("T", &Tensor::T, "Two axes exchanged: transpose().");
  tensor.def("flatten", &Tensor::flatten, "start_dim"_a = 0, "end_dim"_a = -1, "Several axes as one.");
  tensor.def("unflatten", &Tensor::unflatten, "dim"_a, "sizes"_a, "One axis as several.");
  tensor.def("squeeze", &Tensor::squeeze, "dim"_a = nb::none(),
             "Without axes of size 1: all, or the one given.");
  tensor.def("unsqueeze", &Tensor::unsqueeze, "dim"_a, "With another axis of size 1.");
  tensor.def("shrink", &shrunk, "arg"_a, "The part of each axis from (begin, end); None for all of it.");
  tensor.def(
      "pad", &padded, "padding"_a, "mode"_a = "constant", "value"_a = 0.0,
      "More elements around: (left, right, top, bottom, ...) from the last axis on, or a pair for each axis. "
      "mode: 'constant', 'reflect', 'replicate' or 'circular'.");
  variadic(
      tensor, "shrink_to", "shape",
      [](const Tensor& x, const nb::args& s) { return x.shrink_to(optional_sizes(s)); },
      "The first elements of each axis.");
  variadic(tensor, "pad_to", "shape", &padded_to, "The value behind, up to these sizes; None keeps a size.",
           "value"_a = 0);
  variadic(
      tensor, "flip", "axis",
      [](const Tensor& x, const nb::args& axes) { return x.flip(Axes(ints_of_args(axes))); },
      "Axes reversed.");
  tensor.def("roll", &Tensor::roll, "shifts"_a, "dims"_a = nb::none(),
             "Moved along axes; what leaves comes in again.");
  variadic(
      tensor, "repeat", "repeats",
      [](const Tensor& x, const nb::args& r) { return x.repeat(ints_of_args(r)); },
      "The whole, as often along each axis.");
  tensor.def("repeat_interleave", &Tensor::repeat_interleave, "repeats"_a, "dim"_a = nb::none(),
             "Each element, as often.");
  for (const char* name : {"cat", "concat", "concatenate"})
    tensor.def(
        name,
        [](nb::handle x, const nb::args& args, int64_t dim) { return Tensor::cat(tensors_of(x, args), dim); },
        "args"_a, "dim"_a = 0, "Tensors behind each other along an axis.");
  tensor.def(
      "stack",
      [](nb::handle x, const nb::args& args, int64_t dim) { return Tensor::stack(tensors_of(x, args), dim); },
      "args"_a, "dim"_a = 0, "Tensors along a new axis.");
  tensor.def(
      "split", [](const Tensor& x, const IntList& s, int64_t dim) { return tuple_of(x.split(s, dim)); },
      "sizes"_a, "dim"_a = 0, "Parts of that size, or of these sizes, along an axis.");
  tensor.def("chunk", &Tensor::chunk, "chunks"_a, "dim"_a = 0, "As many parts along an axis.");
  for (const char* name : {"swapaxes", "swapdims"})
    tensor.def(name, &Tensor::swapaxes, "axis0"_a, "axis1"_a, "Two axes exchanged.");
  for (const char* name : {"movedim", "moveaxis"})
    tensor.def(name, &Tensor::movedim, "source"_a, "destination"_a,
               "Axes moved to other places; the others keep their order.");
  variadic(
      tensor, "tile", "dims", [](const Tensor& x, const nb::args& r) { return x.tile(ints_of_args(r)); },
      "The whole, as often along each axis; numbers that are missing in front are 1.");
  variadic(
      tensor, "broadcast_to", "shape",
      [](const Tensor& x, const nb::args& shape) { return x.broadcast_to(shape_of_args(shape)); },
      "Axes of size 1 repeated, and axes in front.");
  tensor.def("ravel", &Tensor::ravel, "All elements in one row.");
  tensor.def("expand_as", &Tensor::expand_as, "other"_a, "Expanded to the shape of another.");
  tensor.def("view_as", &Tensor::view_as, "other"_a, "In the shape of another.");
  tensor.def("reshape_as", &Tensor::reshape_as, "other"_a, "In the shape of another.");
  tensor.def(
      "unbind", [](const Tensor& x, int64_t dim) { return tuple_of(x.unbind(dim)); }, "dim"_a = 0,
      "The parts along an axis, without it.");
  tensor.def("narrow", &Tensor::narrow, "dim"_a, "start"_a, "length"_a,
             "So many elements of an axis, from one on.");
  tensor.def("select", &Tensor::select, "dim"_a, "index"_a, "What is at one place of an axis, without it.");
  tensor.def("pixel_shuffle", &Tensor::pixel_shuffle, "upscale_factor"_a,
             "Channels as pixels: (c * f * f, h, w) becomes (c, h * f, w * f).");
  tensor.def("pixel_unshuffle", &Tensor::pixel_unshuffle, "downscale_factor"_a,
             "Pixels as channels: (c, h * f, w * f) becomes (c * f * f, h, w).");
  tensor.def(
      "t",
      [](const Tensor& x) {
        if (x.ndim() > 2)
          throw ShapeError("t: a tensor of shape " + shape_text(x.shape()) + ", expected at most 2 axes");
        return x.T();
      },
      "The transpose of a matrix.");
  tensor.def_prop_ro(
      "mT", [](const Tensor& x) { return x.transpose(-2, -1); }, "The last two axes exchanged.");
  for (const char* name : {"hstack", "vstack"})
    tensor.def_static(
        name,
        [stack = std::string_view(name) == "hstack" ? &Tensor::hstack : &Tensor::vstack](
            nb::handle tensors, const nb::args& more) { return stack(tensors_of(tensors, more)); },
        "tensors"_a, "more"_a,
        "Tensors behind each other along the second axis (hstack) or the first (vstack).");
  tensor.def("unfold", &Tensor::unfold, "dim"_a, "size"_a, "step"_a,
             "Windows along an axis, as a last axis.");
  tensor.def("diagonal", &Tensor::diagonal, "offset"_a = 0, "dim1"_a = 0, "dim2"_a = 1,
             "The diagonal of two axes.");
  tensor.def("rearrange", &rearranged, "formula"_a, "sizes"_a,
             "Axes by name: x.rearrange('b (h w) -> b h w', h=2).");
  tensor.def(
      "interpolate",
      [](const Tensor& x, const IntList& size, const std::string& mode, bool align) {
        return x.interpolate(size.values(), mode, align);
      },
      "size"_a, "mode"_a = "linear", "align_corners"_a = false,
      "The last axes in other sizes: 'linear', 'nearest' or 'nearest-exact'.");
  tensor.def(
      "meshgrid",
      [](nb::handle x, const nb::args& args, const std::string& indexing) {
        return tuple_of(Tensor::meshgrid(tensors_of(x, args), indexing));
      },
      "args"_a, "indexing"_a = "ij", "Coordinates of a grid from those of its axes.");
}

}  // namespace quern::python
