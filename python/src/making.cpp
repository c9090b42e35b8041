// Tensors from nothing: filled, counted, random.
#include "python/src/bind.h"
#include "quern/tensor/core/support.h"

namespace quern::python {
namespace {

using namespace nb::literals;

using OptionalDType = std::optional<DType>;

// Where and as what it is made, and whether gradients are wanted.
struct Request {
  nb::handle dtype, device, requires_grad;
  std::vector<std::string> names = devices(device);
  TensorOptions options() const {
    return {.dtype = dtype.is_none() ? OptionalDType() : OptionalDType(python::dtype(dtype)),
            .device = names.empty() ? "" : names[0]};
  }
  Tensor finish(const Tensor& options) const {
    const Tensor tensor = on_all(options, names);
    if (!requires_grad.is_none()) tensor.set_requires_grad(truth("requires_grad", requires_grad));
    return tensor;
  }
};

// f(*shape, dtype=None, device=None, requires_grad=None), and what tinygrad lets scripts say of memory, which
// changes nothing here.
template <class Make>
void by_shape(TensorClass& tensor, const char* name, Make make, const char* doc, const char* memory) {
  tensor.def_static(
      name,
      [make](const nb::args& shape, nb::handle dtype, nb::handle device, nb::handle grad, bool) {
        const Request request{dtype, device, grad};
        return request.finish(make(shape_of_args(shape), request.options()));
      },
      "shape"_a, "dtype"_a = nb::none(), "device"_a = nb::none(), "requires_grad"_a = nb::none(),
      nb::arg(memory) = true, doc);
}

// The same with numbers before the dtype: f(*shape, low=0, high=1, ...)
template <class T, class Make>
void by_shape(TensorClass& tensor, const char* name, nb::arg_v a, nb::arg_v b, Make make, const char* doc) {
  tensor.def_static(
      name,
      [make](const nb::args& shape, T x, T y, nb::handle dtype, nb::handle device, nb::handle grad, bool) {
        const Request request{dtype, device, grad};
        return request.finish(make(shape_of_args(shape), x, y, request.options()));
      },
      "shape"_a, a, b, "dtype"_a = nb::none(), "device"_a = nb::none(), "requires_grad"_a = nb::none(),
      "contiguous"_a = true, doc);
}

template <class Make>
void like(TensorClass& tensor, const char* name, Make make, const char* doc, const char* memory) {
  tensor.def(
      name,
      [make](const Tensor& x, nb::handle dtype, nb::handle device, nb::handle grad, bool) {
        const Request request{dtype, device, grad};
        return request.finish(make(x, request.options()));
      },
      "dtype"_a = nb::none(), "device"_a = nb::none(), "requires_grad"_a = nb::none(), nb::arg(memory) = true,
      doc);
}

bool is_size(nb::handle h) { return nb::isinstance<UOp>(h); }
bool is_int(nb::handle h) { return PyIndex_Check(h.ptr()) != 0; }

Operand number(nb::handle h) {
  if (!is_number(h)) wrong_type("a number for arange()", h);
  return operand(h);
}

// Between sizes that are known later, of which there are as many as the distance says.
Tensor counted_between(const Dim& start, const Dim& stop, int64_t step, OptionalDType asked) {
  if (step == 0) throw ValueError("arange: the step is 0");
  const UOp far = (stop.uop() - start.uop() + (step > 0 ? step - 1 : step + 1)) / step;
  const UOp least = far.simplify();
  const Dim n((least.vmin() < 0 ? max(least, least.const_like(0)) : least).simplify());
  const Tensor i = detail::iota(n, dtypes::int64);
  const auto holds = [](const Dim& d) {
    return fits(default_int(), d.uop().vmin()) && fits(default_int(), d.uop().vmax());
  };
  const DType dtype = asked.value_or(holds(start) && holds(stop) ? default_int() : dtypes::int64);
  return (i * step + Tensor::from_dim(start, dtypes::int64)).cast(dtype);
}

// Integers unless one of the numbers is none.
Tensor counted(nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype, nb::handle device,
               nb::handle grad) {
  const Request request{dtype, device, grad};
  TensorOptions options = request.options();
  if (!options.dtype && !(is_int(start) && (stop.is_none() || is_int(stop)) && is_int(step)))
    options.dtype = default_float();
  if (is_size(start) || is_size(stop)) {
    if (!is_int(step) || is_size(step)) wrong_type("an int as the step of an arange() between sizes", step);
    const auto by = nb::cast<int64_t>(step);
    const Tensor numbers = stop.is_none() ? counted_between(0, dim(start), by, options.dtype)
                                          : counted_between(dim(start), dim(stop), by, options.dtype);
    return request.finish(detail::placed(numbers, options));
  }
  return request.finish(stop.is_none() ? Tensor::arange(0, number(start), number(step), options)
                                       : Tensor::arange(number(start), number(stop), number(step), options));
}

}  // namespace

void bind_making(TensorClass& tensor) {
  const auto dtype_ = "dtype"_a = nb::none();
  const auto device_ = "device"_a = nb::none();
  const auto grad_ = "requires_grad"_a = nb::none();
  by_shape(tensor, "empty", &Tensor::empty, "Memory with whatever is in it.", "buffer");
  by_shape(tensor, "zeros", &Tensor::zeros, "Zeros.", "buffer");
  by_shape(tensor, "ones", &Tensor::ones, "Ones.", "buffer");
  by_shape(tensor, "rand", &Tensor::rand, "Random numbers in [0, 1).", "contiguous");
  by_shape(tensor, "randn", &Tensor::randn, "Random numbers of the standard normal distribution.",
           "contiguous");
  by_shape(tensor, "scaled_uniform", &Tensor::scaled_uniform,
           "Uniform in [-1, 1), divided by sqrt(number of elements).", "contiguous");
  by_shape(tensor, "glorot_uniform", &Tensor::glorot_uniform, "Uniform within sqrt(6 / (inputs + outputs)).",
           "contiguous");
  by_shape<double>(
      tensor, "uniform", "low"_a = 0.0, "high"_a = 1.0,
      [](const Shape& s, double low, double high, const TensorOptions& options) {
        return Tensor::uniform(s, low, high, options);
      },
      "Random numbers in [low, high).");
  by_shape<double>(
      tensor, "normal", "mean"_a = 0.0, "std"_a = 1.0,
      [](const Shape& s, double mean, double std, const TensorOptions& options) {
        return Tensor::normal(s, mean, std, options);
      },
      "Random numbers of a normal distribution.");
  by_shape<int64_t>(
      tensor, "randint", "low"_a = 0, "high"_a = 10,
      [](const Shape& s, int64_t low, int64_t high, const TensorOptions& options) {
        return Tensor::randint(s, low, high, options);
      },
      "Random integers in [low, high).");
  struct Kaiming {
    const char* name;
    Tensor (*make)(const Shape&, double, const TensorOptions&);
    const char* doc;
  };
  for (const Kaiming& k :
       {Kaiming{"kaiming_uniform", &Tensor::kaiming_uniform, "Uniform, as He et al. scale weights."},
        Kaiming{"kaiming_normal", &Tensor::kaiming_normal, "Normal, as He et al. scale weights."}})
    tensor.def_static(
        k.name,
        [make = k.make](const nb::args& shape, double a, nb::handle dtype, nb::handle device, nb::handle grad,
                        bool) {
          const Request request{dtype, device, grad};
          return request.finish(make(shape_of_args(shape), a, request.options()));
        },
        "shape"_a, "a"_a = 0.01, dtype_, device_, grad_, "contiguous"_a = true, k.doc);
  tensor.def_static(
      "full",
      [](const Shape& shape, const Operand& value, nb::handle dtype, nb::handle device, nb::handle grad,
         bool) {
        const Request request{dtype, device, grad};
        const TensorOptions options = request.options();
        return request.finish(
            Tensor::full(shape, options.dtype ? cast_to(value, *options.dtype) : value, options));
      },
      "shape"_a, "fill_value"_a, dtype_, device_, grad_, "buffer"_a = true, "The same value everywhere.");
  tensor.def_static("arange", &counted, "start"_a, "stop"_a = nb::none(), "step"_a = 1, dtype_, device_,
                    grad_,
                    "Numbers from start up to stop, which is not among them; with one number, from 0.");
  tensor.def_static(
      "linspace",
      [](double start, double stop, int64_t steps, nb::handle dtype, nb::handle device, nb::handle grad) {
        const Request request{dtype, device, grad};
        return request.finish(Tensor::linspace(start, stop, steps, request.options()));
      },
      "start"_a, "stop"_a, "steps"_a, dtype_, device_, grad_,
      "Numbers at equal distances, both ends included.");
  tensor.def_static(
      "eye",
      [](const Dim& n, const std::optional<Dim>& m, nb::handle dtype, nb::handle device, nb::handle grad) {
        const Request request{dtype, device, grad};
        return request.finish(Tensor::eye(n, m, request.options()));
      },
      "n"_a, "m"_a = nb::none(), dtype_, device_, grad_, "Ones on the diagonal of n rows and m columns.");
  tensor.def_static(
      "randperm",
      [](int64_t n, nb::handle device, nb::handle dtype) {
        const Request request{dtype, device, nb::none()};
        return request.finish(Tensor::randperm(n, request.options()));
      },
      "n"_a, device_, dtype_, "The numbers below n in a random order.");
  tensor.def_static(
      "manual_seed",
      [](const nb::int_& seed) {
        unsigned long long value = PyLong_AsUnsignedLongLong(seed.ptr());
        if (PyErr_Occurred() != nullptr) {
          PyErr_Clear();
          throw ValueError("manual_seed: the seed is " + text(nb::str(seed), "digits") +
                           ", expected 0 to 2^64 - 1");
        }
        Tensor::manual_seed(value);
      },
      "seed"_a = 0, "Random numbers start again, from this seed.");

  like(
      tensor, "empty_like", [](const Tensor& x, const TensorOptions& m) { return x.empty_like(m); },
      "empty() of this shape and dtype.", "buffer");
  like(
      tensor, "zeros_like", [](const Tensor& x, const TensorOptions& m) { return x.zeros_like(m); },
      "zeros() of this shape and dtype.", "buffer");
  like(
      tensor, "ones_like", [](const Tensor& x, const TensorOptions& m) { return x.ones_like(m); },
      "ones() of this shape and dtype.", "buffer");
  like(
      tensor, "rand_like", [](const Tensor& x, const TensorOptions& m) { return x.rand_like(m); },
      "rand() of this shape and dtype.", "contiguous");
  like(
      tensor, "randn_like", [](const Tensor& x, const TensorOptions& m) { return x.randn_like(m); },
      "randn() of this shape and dtype.", "contiguous");
  tensor.def(
      "full_like",
      [](const Tensor& x, const Operand& value, nb::handle dtype, nb::handle device, nb::handle grad, bool) {
        const Request request{dtype, device, grad};
        return request.finish(x.full_like(value, request.options()));
      },
      "fill_value"_a, dtype_, device_, grad_, "buffer"_a = true, "full() of this shape and dtype.");
  tensor.def(
      "one_hot", [](const Tensor& x, std::optional<int64_t> n) { return x.one_hot(n); },
      "num_classes"_a = nb::none(), "A last axis that is 1 where the integer says, and 0 elsewhere.");
  tensor.def(
      "tril", [](const Tensor& x, nb::handle diagonal) { return x.tril(dim(diagonal)); }, "diagonal"_a = 0,
      "Zeros above a diagonal.");
  tensor.def(
      "triu", [](const Tensor& x, nb::handle diagonal) { return x.triu(dim(diagonal)); }, "diagonal"_a = 0,
      "Zeros below a diagonal.");
  tensor.def("diag", &Tensor::diag, "A matrix with these elements on its diagonal.");
  tensor.def("multinomial", &Tensor::multinomial, "num_samples"_a = 1, "replacement"_a = false,
             "Random places, as often as their weights say.");
  tensor.def("dropout", &Tensor::dropout, "p"_a = 0.5, "training"_a = nb::none(),
             "Elements become 0 with probability p while training, and the others greater.");
}

}  // namespace quern::python
