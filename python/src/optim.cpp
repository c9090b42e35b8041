// Optimisers, with the arithmetic of quern/nn/optim.h; and one that Python extends.
#include "quern/nn/optim.h"

#include "python/src/bind.h"
#include "quern/nn/training.h"

namespace quern::python {
namespace {

using namespace nb::literals;
using Params = std::vector<Tensor>;

// A tensor is a sequence, too: of its rows, which are not what is to be trained.
Params parameters(nb::handle given) {
  Params params;
  if (is_tensor(given) || !nb::try_cast(given, params)) wrong_type("a list of tensors to train", given);
  return params;
}

// What a class of Python starts from: its method _step(params, grads) returns what is to be subtracted from
// each parameter, and what else is to be realized.
class Extended : public nn::Optimizer {
 public:
  Extended(const Params& params, double lr) : Optimizer("Optimizer", params, lr) {}
  using Optimizer::zeros;

  Params schedule(nb::handle self) {
    self_ = self;
    return schedule_step();
  }

 private:
  bool changes_have_lr() const override { return true; }
  Params changes(const Params& grads, Params& updated) override {
    const nb::object step = self_.attr("_step"), params = nb::cast(parameters()), by = nb::cast(grads);
    const nb::object given = run_python([&] { return step(params, by); });
    std::pair<Params, Params> steps;
    if (!nb::try_cast(given, steps)) wrong_type("two lists of tensors from _step", given);
    if (steps.first.size() != grads.size())
      throw Error("_step: " + std::to_string(steps.first.size()) + " changes for " +
                  std::to_string(grads.size()) + " parameters");
    updated = std::move(steps.second);
    return std::move(steps.first);
  }

  nb::handle self_;  // while it is asked
};

// LAMB without its ratio is Adam.
class Lamb : public nn::LAMB {
 public:
  Lamb(const Params& params, const nn::AdamSettings& settings, bool adam)
      : LAMB(params, settings), adam_(adam) {}

 private:
  Tensor scaled(const Tensor& parameter, const Tensor& step) const override {
    return adam_ ? step : LAMB::scaled(parameter, step);
  }
  bool adam_;
};

nb::object no_step(nb::handle, nb::handle, nb::handle) {
  PyErr_SetString(PyExc_NotImplementedError, "an optimizer needs a method _step(params, grads)");
  nb::raise_python_error();
}

// What an optimiser remembers is kept where its parameters are.
Params on(nb::handle wanted, nb::handle given) {
  Params params = parameters(given);
  if (wanted.is_none() || params.empty()) return params;
  const nb::object is = nb::cast(params[0]).attr("device");
  if (!is.equal(wanted))
    throw Error("an optimizer keeps what it remembers on the device of its parameters, " +
                text(nb::str(is), "a name") + ", not on " + text(nb::str(wanted), "a name"));
  return params;
}

// What an optimiser was made of, to make another one of when it is read from a pickle: its class here, and
// the arguments.
template <class T, class... Settings>
void remember(nb::pointer_and_handle<T> self, nb::handle params, Settings... settings) {
  try {
    self.h.attr("_made_of") = nb::make_tuple(nb::type<T>(), nb::list(params), settings...);
  } catch (...) {
    std::destroy_at(self.p);  // what was not made is destroyed by nobody else
    throw;
  }
}

Params schedule(nb::pointer_and_handle<nn::Optimizer> self) {
  auto* const extended = dynamic_cast<Extended*>(self.p);
  return extended != nullptr ? extended->schedule(self.h) : self.p->schedule_step();
}

void set_lr(nn::Optimizer& o, const Operand& lr) {
  if (!lr.is_tensor()) {
    const double value = lr.constant(dtypes::float64).value().as_float();
    o.set_lr(value);
  } else if (lr.tensor().state() != o.lr_in_memory().state()) {
    if (lr.tensor().numel() != Dim(1))
      throw ShapeError("lr: expected one number, got a tensor of shape " + shape_text(lr.tensor().shape()));
    o.lr_in_memory().assign(lr.tensor().cast(o.lr_in_memory().dtype()).reshape({1}));
  }
}

}  // namespace

void bind_optim(nb::module_& m) {
  // What tinygrad's have, too: all of a step is computed together here, whatever `fused` says.
  const auto device = "device"_a = nb::none();
  const auto fused = "fused"_a = false;
  nb::class_<nn::Optimizer, Extended>(
      m, "Optimizer", nb::dynamic_attr(),
      "Changes its parameters by their gradients, in each step. One of your own is a class with a method "
      "_step(params, grads), which returns what is to be subtracted from each parameter, and a list of what "
      "else "
      "it changed.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<nn::Optimizer> o, nb::handle params, double lr, nb::handle where, bool) {
            new (static_cast<void*>(o.p)) Extended(on(where, params), lr);
            remember(o, params, lr);
          },
          "params"_a, "lr"_a, device, fused)
      .def("zero_grad", &nn::Optimizer::zero_grad, "Forgets the gradients of its parameters.")
      .def(
          "step",
          [](nb::handle self) {
            const nb::object given = self.attr("schedule_step")();
            Params all;
            if (!nb::try_cast(given, all)) wrong_type("a list of tensors from schedule_step", given);
            Tensor::realize_all(all);
          },
          "Changes the parameters. Runs.")
      .def("schedule_step", &schedule, "The tensors to realize, for step() later.")
      .def("_step", &no_step, "params"_a, "grads"_a)
      .def(
          "_new_optim_param",
          [](const nn::Optimizer& o) {
            const auto* const extended = dynamic_cast<const Extended*>(&o);
            return extended != nullptr ? extended->zeros() : Params();
          },
          "A tensor of zeros for each parameter.")
      .def_prop_rw(
          "lr", [](const nn::Optimizer& o) { return o.lr_in_memory(); }, &set_lr,
          "The learning rate: a Tensor of one number, which may be set, or assigned to.")
      .def_prop_ro(
          "params", [](const nn::Optimizer& o) { return o.parameters(); }, "What it changes.")
      .def_prop_ro(
          "device", [](const nn::Optimizer& o) { return nb::cast(o.parameters().at(0)).attr("device"); },
          "Where its parameters are.")
      .def("state", &nn::Optimizer::state, "What it remembers of earlier steps.");
  nb::class_<nn::SGD, nn::Optimizer>(m, "SGD", nb::dynamic_attr(), "Gradient descent, with momentum.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<nn::SGD> o, nb::handle params, double lr, double momentum,
             double weight_decay, bool nesterov, bool classic, nb::handle where, bool) {
            new (o.p) nn::SGD(on(where, params), {.lr = lr,
                                                  .momentum = momentum,
                                                  .weight_decay = weight_decay,
                                                  .nesterov = nesterov,
                                                  .classic = classic});
            remember(o, params, lr, momentum, weight_decay, nesterov, classic);
          },
          "params"_a, "lr"_a = 0.001, "momentum"_a = 0.0, "weight_decay"_a = 0.0, "nesterov"_a = false,
          "classic"_a = false, device, fused);
  nb::class_<nn::Muon, nn::Optimizer>(m, "Muon", nb::dynamic_attr(),
                                      "SGD of matrices, with the momentum made orthogonal.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<nn::Muon> o, nb::handle params, double lr, double momentum,
             double weight_decay, int64_t ns_steps, const std::vector<double>& coefficients, bool nesterov,
             nb::handle where, bool) {
            new (o.p) nn::Muon(on(where, params), {.lr = lr,
                                                   .momentum = momentum,
                                                   .weight_decay = weight_decay,
                                                   .steps = ns_steps,
                                                   .coefficients = coefficients,
                                                   .nesterov = nesterov});
            remember(o, params, lr, momentum, weight_decay, ns_steps, coefficients, nesterov);
          },
          "params"_a, "lr"_a = 0.001, "momentum"_a = 0.95, "weight_decay"_a = 0.1, "ns_steps"_a = 5,
          "ns_coefficients"_a = nb::make_tuple(3.4445, -4.775, 2.0315), "nesterov"_a = true, device, fused);
  nb::class_<nn::AdamW, nn::Optimizer>(m, "AdamW", nb::dynamic_attr(),
                                       "Adam with decay of the weights apart from the gradient.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<nn::AdamW> o, nb::handle params, double lr, double b1, double b2,
             double eps, double weight_decay, nb::handle where, bool) {
            new (o.p) nn::AdamW(on(where, params),
                                {.lr = lr, .b1 = b1, .b2 = b2, .eps = eps, .weight_decay = weight_decay});
            remember(o, params, lr, b1, b2, eps, weight_decay);
          },
          "params"_a, "lr"_a = 0.001, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-8, "weight_decay"_a = 0.01,
          device, fused);
  nb::class_<nn::Adam, nn::Optimizer>(m, "Adam", nb::dynamic_attr(),
                                      "Steps scaled by averages of the gradient and of its square.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<nn::Adam> o, nb::handle params, double lr, double b1, double b2,
             double eps, nb::handle where, bool) {
            new (o.p) nn::Adam(on(where, params), {.lr = lr, .b1 = b1, .b2 = b2, .eps = eps});
            remember(o, params, lr, b1, b2, eps);
          },
          "params"_a, "lr"_a = 0.001, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-8, device, fused);
  nb::class_<Lamb, nn::Optimizer>(m, "LAMB", nb::dynamic_attr(),
                                  "AdamW with steps in proportion to the norm of the parameter.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<Lamb> o, nb::handle params, double lr, double b1, double b2, double eps,
             double weight_decay, bool adam, nb::handle where, bool) {
            new (o.p) Lamb(on(where, params),
                           {.lr = lr, .b1 = b1, .b2 = b2, .eps = eps, .weight_decay = weight_decay}, adam);
            remember(o, params, lr, b1, b2, eps, weight_decay, adam);
          },
          "params"_a, "lr"_a = 0.001, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-6, "weight_decay"_a = 0.0,
          "adam"_a = false, device, fused);
  m.def("clip_grad_norm", &nn::clip_grad_norm, "params"_a, "max_norm"_a,
        "Scales gradients so that their norm is at most max_norm; returns the norm before.");
  m.def("clip_grad_value", &nn::clip_grad_value, "params"_a, "clip_value"_a,
        "Each number of the gradients within bounds.");
}

}  // namespace quern::python
