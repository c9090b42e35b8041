// What a tensor is, its memory, its gradient, and running it.
#include <algorithm>
#include <new>
#include <unordered_set>

#include "python/src/bind.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/tensor/core/custom_gradient.h"
#include "quern/tensor/core/default_gradient.h"
#include "quern/tensor/core/training.h"
#include "quern/tensor/gradient/ended_graphs.h"

namespace quern::python {
namespace {

using namespace nb::literals;

// Several devices are a tuple of names.
nb::object device_of(const Tensor& x) {
  const Texts devices = x.devices();
  if (devices.empty()) return nb::str(default_device().c_str());
  if (devices.size() == 1) return path_object(devices[0]);  // of a file, perhaps
  nb::list all;
  for (const std::string& d : devices) all.append(path_object(d));
  return nb::tuple(all);
}

std::vector<std::string> names(nb::handle h) {
  if (!nb::isinstance<nb::str>(h) && !is_sequence(h)) wrong_type("names of devices for shard()", h);
  return is_sequence(h) && nb::len(h) == 0 ? std::vector<std::string>() : devices(h);
}

Tensor moved(const Tensor& x, nb::handle to) {
  if (is_sequence(to)) return x.shard(names(to));
  return x.to(to.is_none() ? default_device() : device(to));
}

nb::object realized(nb::handle self, const nb::args& others, bool /*do_update_stats*/) {
  std::vector<Tensor> all = {tensor(self)};
  for (nb::handle o : others) all.push_back(tensor(o));
  Tensor::realize_all(all);
  let_go();
  return nb::borrow(self);
}

nb::object assigned(nb::handle self, nb::handle value) {
  const Tensor& x = tensor(self);
  std::optional<Operand> given = try_operand(value);
  if (!given) given = Operand(tensor_of(value, {}, ""));
  if (given->is_tensor() && given->tensor().dtype() != x.dtype() && !is_tensor(value)) {
    if (given->tensor().dtype().is_float() && !x.dtype().is_float())
      throw DTypeError("assign: the value is " + given->tensor().dtype().name() + ", the tensor " +
                       x.dtype().name() + "; cast it");
    given = Operand(given->tensor().cast(x.dtype()));
  }
  x.assign(*given);
  return nb::borrow(self);
}

std::vector<Tensor> gradients(const Tensor& x, const nb::args& targets, const std::optional<Tensor>& seed) {
  std::vector<Tensor> of;
  for (nb::handle t : targets) of.push_back(tensor(t));
  return x.gradient(of, seed, true);
}

// Gradients for the tensors that require them. If the value depends on none such, then for all floats of this
// thread that it depends on, and of which nothing was said.
void run_backward(const Tensor& x, const std::optional<Tensor>& seed) {
  const NodeList nodes = x.uop().toposort();
  const std::unordered_set<UOp> below(nodes.begin(), nodes.end());
  const auto is_below = [&](const std::shared_ptr<detail::TensorState>& s) {
    const UOp node = s->get();
    return below.contains(base_of(node));  // views of views are one view
  };
  struct Asked {  // for as long as this lasts
    std::vector<std::shared_ptr<detail::TensorState>> states;
    ~Asked() {
      for (const auto& s : states) s->requires_grad.reset();
    }
  } asked;
  if (std::ranges::none_of(detail::states_with_grad(), is_below))
    for (const auto& s : detail::states_with_default_gradient())
      if (s->get().dtype().is_float() && is_below(s)) {
        s->requires_grad = true;
        asked.states.push_back(s);
      }
  // All that is left of a loss that was realized is the loss itself.
  const auto is_loss = [&](const std::shared_ptr<detail::TensorState>& s) {
    return same(base_of(s->get()), base_of(x.uop()));
  };
  if (std::ranges::all_of(asked.states, is_loss) && has_lost_graphs(x.uop()))
    for (const auto& s : asked.states) s->requires_grad = false;
  x.backward(seed);
}

// A Training that stays: it says what holds now, and nobody puts back what was.
void set_training(bool on) {
  alignas(Training) std::byte memory[sizeof(Training)];
  new (memory) Training(on);
}

// Functions that were written at one place and hold nothing are the same, however often they are made: a step
// that is taken again is scheduled once.
const void* identity_of(nb::handle function) {
  const auto holds = [&](const char* name) { return !nb::getattr(function, name, nb::none()).is_none(); };
  if (!holds("__code__") || holds("__closure__") || holds("__defaults__") || holds("__kwdefaults__") ||
      holds("__self__"))
    return function.ptr();
  return nb::getattr(function, "__code__").ptr();
}

// A function of Python that is given lists of tensors, and gives a gradient or None for each of the last.
template <class... Lists>
std::vector<std::optional<Tensor>> called_for_gradients(const std::shared_ptr<void>& kept,
                                                        const Lists&... lists) {
  const Locked lock;
  const nb::handle function(static_cast<PyObject*>(kept.get()));
  const nb::object result = run_python([&] { return function(nb::cast(lists)...); });
  std::vector<std::optional<Tensor>> gradients;
  if (!nb::try_cast(result, gradients)) wrong_type("a list of tensors and None from grad_fxn", result);
  return gradients;
}

std::vector<Tensor> with_gradient(const std::vector<Tensor>& results, const std::vector<Tensor>& arguments,
                                  const nb::callable& gradient) {
  const std::shared_ptr<void> kept = keep_alive(gradient);
  return with_function_gradient(
      results, arguments,
      [kept](const FunctionValues& v) { return called_for_gradients(kept, v.given, v.inputs); },
      {identity_of(gradient)});
}

std::vector<Tensor> run_custom_kernel(nb::handle self, const nb::args& others, const nb::callable& body,
                                      const nb::object& gradient) {
  std::vector<Tensor> arguments = {tensor(self)};
  for (nb::handle o : others) arguments.push_back(tensor(o));
  if (!gradient.is_none() && PyCallable_Check(gradient.ptr()) == 0)
    wrong_type("a function as grad_fxn", gradient);
  const auto make = [&](const UOps& params) {
    nb::list given;
    for (const UOp& p : params) given.append(nb::cast(p));
    const nb::tuple each(given);
    const nb::object made = run_python([&] { return body(*each); });
    if (!nb::isinstance<UOp>(made)) wrong_type("a UOp from the function of a kernel", made);
    return instance<UOp>(made);
  };
  KernelGradient backward;
  if (!gradient.is_none()) {
    const std::shared_ptr<void> kept = keep_alive(gradient);
    backward = [kept](const std::vector<Tensor>& grads, const std::vector<Tensor>& args) {
      return called_for_gradients(kept, grads, args);
    };
  }
  return custom_kernel(arguments, make, backward, identity_of(gradient));
}

// Functions that write into the tensor, and return it.
template <class F, class... Arguments>
void in_place(TensorClass& tensor, const char* name, F write, const Arguments&... arguments) {
  [&]<class... Given>(const Tensor& (Tensor::*function)(Given...) const) {
    tensor.def(
        name,
        [function](nb::handle self, Given... given) {
          (python::tensor(self).*function)(given...);
          return nb::borrow(self);
        },
        arguments...);
  }(write);
}

void bind_in_place(TensorClass& tensor) {
  in_place(tensor, "zero_", &Tensor::zero_, "Zeros, written into its memory.");
  in_place(tensor, "fill_", &Tensor::fill_, "value"_a, "One number, written into its memory.");
  in_place(tensor, "copy_", &Tensor::copy_, "src"_a,
           "The values of another, converted and moved, written into its memory.");
  in_place(tensor, "add_", &Tensor::add_, "other"_a, nb::kw_only(), "alpha"_a = 1.0,
           "x + alpha * other, written into its memory.");
  in_place(tensor, "sub_", &Tensor::sub_, "other"_a, nb::kw_only(), "alpha"_a = 1.0,
           "x - alpha * other, written into its memory.");
  in_place(tensor, "mul_", &Tensor::mul_, "other"_a, "x * other, written into its memory.");
  in_place(tensor, "div_", &Tensor::div_, "other"_a, "x / other, written into its memory.");
  in_place(tensor, "lerp_", &Tensor::lerp_, "end"_a, "weight"_a, "lerp(), written into its memory.");
  in_place(tensor, "addcmul_", &Tensor::addcmul_, "tensor1"_a, "tensor2"_a, nb::kw_only(), "value"_a = 1.0,
           "addcmul(), written into its memory.");
  in_place(tensor, "addcdiv_", &Tensor::addcdiv_, "tensor1"_a, "tensor2"_a, nb::kw_only(), "value"_a = 1.0,
           "addcdiv(), written into its memory.");
  in_place(tensor, "masked_fill_", &Tensor::masked_fill_, "mask"_a, "value"_a,
           "The value where the mask is true, written into its memory.");
  in_place(tensor, "normal_", &Tensor::normal_, "mean"_a = 0.0, "std"_a = 1.0,
           "Random numbers of a normal distribution, written into its memory.");
  in_place(tensor, "uniform_", &Tensor::uniform_, "low"_a = 0.0, "high"_a = 1.0,
           "Random numbers from low to high, written into its memory.");
  for (const char* name : {"clamp_", "clip_"})
    tensor.def(
        name,
        [](nb::handle self, nb::handle least, nb::handle most) {
          const Tensor& x = python::tensor(self);
          if (least.is_none() && most.is_none())
            throw ValueError("clamp_: neither a least nor a greatest value is given");
          if (least.is_none() || most.is_none())
            x.assign(
                (least.is_none() ? x.clamp_max(operand(most)) : x.clamp_min(operand(least))).cast(x.dtype()));
          else
            x.clamp_(operand(least), operand(most));
          return nb::borrow(self);
        },
        "min"_a = nb::none(), "max"_a = nb::none(), "Kept within bounds, written into its memory.");
}

// A NoGrad that Python ends.
struct NoGradBlock {
  std::optional<NoGrad> block;
  NoGradBlock() { block.emplace(); }
};

}  // namespace

// inspect.signature() asks functions for __signature__. Those of nanobind have types that cannot be changed
// from Python, and no such attribute: it is added to the types.
void bind_signatures(nb::module_& m) {
  m.def("shown", &shown, "value"_a.none(), "A value as it is written, unless that is long: then what it is.");
  m.def("add_attribute", [](const nb::list& types, const nb::str& name, nb::handle value) {
    for (nb::handle type : types) {
      if (PyObject_GenericSetAttr(type.ptr(), name.ptr(), value.ptr()) != 0) nb::raise_python_error();
      PyType_Modified(reinterpret_cast<PyTypeObject*>(type.ptr()));
    }
  });
}

void bind_gradients(nb::module_& m) {
  m.def("with_function_gradient", &with_gradient, "results"_a, "arguments"_a, "gradient"_a);
  nb::class_<NoGradBlock>(m, "NoGradBlock")
      .def(nb::init<>())
      .def(
          "end", [](NoGradBlock& b) { b.block.reset(); },
          "What was computed since it was made carries no gradient.");
  m.def("is_grad_enabled", &is_grad_enabled, "False within no_grad().");
}

void bind_running(TensorClass& tensor) {
  tensor.def_prop_ro("uop", &Tensor::uop, "The node that computes or holds the values.");
  tensor.def_prop_ro("dtype", &Tensor::dtype, "The type of the elements.");
  tensor.def_prop_ro("shape", &Tensor::shape, "The sizes of the axes; symbolic ones are UOps.");
  tensor.def_prop_ro("ndim", &Tensor::ndim, "The number of axes.");
  tensor.def_prop_ro("device", &device_of, "Where it is: a name, or several.");
  tensor.def("dim", &Tensor::ndim, "The number of axes.");
  for (const char* name : {"numel", "nelement"}) tensor.def(name, &Tensor::numel, "The number of elements.");
  tensor.def("element_size", [](const Tensor& x) { return x.dtype().bytes(); }, "Bytes of an element.");
  tensor.def(
      "nbytes",
      [](const Tensor& x) { return nb::int_(nb::int_(x.numel().value()) * nb::int_(x.dtype().bytes())); },
      "Bytes of all elements.");
  tensor.def(
      "size",
      [](const Tensor& x, std::optional<int64_t> axis) {
        return axis ? to_python(x.size(*axis)) : to_python(x.shape());
      },
      "dim"_a = nb::none(), "The size of an axis, or the shape.");
  tensor.def("is_floating_point", &Tensor::is_floating_point, "Whether its elements are floats.");
  tensor.def(
      "is_realized", [](const Tensor& x) { return memory_base(x.uop()).op() == Op::BUFFER; },
      "Whether its values are in memory.");

  tensor.def("realize", &realized, "lst"_a, "do_update_stats"_a = true,
             "Computes it, and the tensors given with it, together.");
  tensor.def(
      "schedule", [](const Tensor& x) { return x.schedule(); },
      "The steps that realize() would take, as text.");
  tensor.def("assign", &assigned, "x"_a, "Writes into the memory of this tensor: views of it see it.");
  bind_in_place(tensor);
  tensor.def(
      "replace",
      [](nb::handle self, const Tensor& x) {
        python::tensor(self).replace(x);
        return nb::borrow(self);
      },
      "x"_a, "This tensor is another value from now on.");
  tensor.def("detach", &Tensor::detach, "The same values, through which no gradient flows.");
  tensor.def(
      "contiguous",
      [](const Tensor& x, const std::string& opts, nb::handle arg) {
        std::string all = opts;
        if (!arg.is_none()) {
          if (!is_sequence(arg)) wrong_type("a tuple of Opt as arg", arg);
          for (nb::handle opt : nb::borrow<nb::sequence>(arg))
            all += (all.empty() ? "" : " ") + text(nb::str(opt), "an Opt");
        }
        return all.empty() ? x.contiguous() : x.contiguous(all);
      },
      "opts"_a = "", "arg"_a = nb::none(),
      "In memory of its own, elements in order; opts, or a tuple of Opt as arg: of the kernel that computes "
      "it.");
  tensor.def("contiguous_backward", &Tensor::contiguous_backward, "Its gradient is in memory of its own.");
  tensor.def(
      "clone", [](const Tensor& x, nb::handle to) { return to.is_none() ? x.clone() : moved(x, to).clone(); },
      "device"_a = nb::none(), "A copy with memory of its own.");
  tensor.def("to", &moved, "device"_a.none(), "On another device, or on several.");
  tensor.def(
      "to_",
      [](nb::handle self, nb::handle to) {
        const Tensor& x = python::tensor(self);
        x.replace(moved(x, to));
        return nb::borrow(self);
      },
      "device"_a.none(), "This tensor is on another device from now on.");
  tensor.def(
      "shard",
      [](const Tensor& x, nb::handle devices, std::optional<int64_t> axis) {
        return x.shard(names(devices), axis);
      },
      "devices"_a, "axis"_a = nb::none(), "Cut on an axis over devices; without one, whole on each.");
  tensor.def(
      "shard_",
      [](nb::handle self, nb::handle devices, std::optional<int64_t> axis) {
        const Tensor& x = python::tensor(self);
        x.replace(x.shard(names(devices), axis));
        return nb::borrow(self);
      },
      "devices"_a, "axis"_a = nb::none(), "shard(), of this tensor itself.");

  tensor.def_prop_rw(
      "requires_grad",
      [](const Tensor& x) -> nb::object {
        const std::optional<bool>& said = x.state()->requires_grad;
        return said ? nb::object(nb::bool_(*said)) : nb::none();
      },
      [](const Tensor& x, nb::handle value) {
        if (value.is_none())
          x.state()->requires_grad.reset();
        else
          x.set_requires_grad(truth("requires_grad", value));
      },
      nb::for_setter("value"_a.none()),
      "Whether backward() computes a gradient for it; None: nothing was said.");
  tensor.def(
      "requires_grad_",
      [](nb::handle self, bool value) {
        python::tensor(self).set_requires_grad(value);
        return nb::borrow(self);
      },
      "requires_grad"_a = true, "Sets requires_grad, and returns this tensor.");
  tensor.def_prop_rw(
      "is_param", [](const Tensor& x) { return !x.refuses_grad(); },
      [](const Tensor& x, bool value) { x.set_requires_grad(value); },
      "Whether optimisers change it: not if it refuses gradients.");
  tensor.def(
      "is_param_",
      [](nb::handle self, bool value) {
        python::tensor(self).set_requires_grad(value);
        return nb::borrow(self);
      },
      "is_param"_a = true, "Sets is_param, and returns this tensor.");
  tensor.def_prop_rw(
      "grad", &Tensor::grad, [](const Tensor& x, const std::optional<Tensor>& g) { x.set_grad(g); },
      nb::for_setter("value"_a.none()), "What backward() added up; None before.");
  tensor.def(
      "backward",
      [](nb::handle self, const std::optional<Tensor>& seed) {
        run_backward(python::tensor(self), seed);
        return nb::borrow(self);
      },
      "gradient"_a = nb::none(),
      "Adds gradients of this to the grad of all tensors that require them; if it depends on none such, to "
      "that of "
      "all floats it depends on that do not refuse.");
  tensor.def("gradient", &gradients, "targets"_a, "gradient"_a = nb::none(),
             "Gradients of this by each of the targets; zeros of those it does not depend on.");
  tensor.def("custom_kernel", &run_custom_kernel, "lst"_a, "fxn"_a, "grad_fxn"_a = nb::none(),
             "Runs a kernel that a function writes as nodes over a PARAM for each tensor.");
  tensor.def_prop_rw_static(
      "training", [](nb::handle) { return is_training(); }, [](nb::handle, bool on) { set_training(on); },
      "Whether a model is being trained: dropout and batch statistics ask.");
}

}  // namespace quern::python
