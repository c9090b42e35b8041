// Optimisers, with the arithmetic of quern/nn/optim.h.
#include <nanobind/stl/shared_ptr.h>

#include "python/src/bind.h"
#include "quern/nn/optim.h"
#include "quern/nn/training.h"

namespace quern::python {
namespace {

using namespace nb::literals;
using Params = std::vector<Tensor>;

}  // namespace

void bind_optim(nb::module_& m) {
  nb::class_<nn::Optimizer>(m, "Optimizer", "Changes its parameters by their gradients, in each step.")
      .def("zero_grad", &nn::Optimizer::zero_grad, "Forgets the gradients of its parameters.")
      .def(
          "step", [](nn::Optimizer& o) { without_lock([&] { o.step(); }); }, "Changes the parameters. Runs.")
      .def("schedule_step", &nn::Optimizer::schedule_step, "The tensors to realize, for step() later.")
      .def_prop_rw(
          "lr", [](const nn::Optimizer& o) { return without_lock([&] { return o.lr(); }); },
          [](nn::Optimizer& o, double lr) { without_lock([&] { o.set_lr(lr); }); }, "The learning rate.")
      .def_prop_ro(
          "params", [](const nn::Optimizer& o) { return o.parameters(); }, "What it changes.")
      .def("state", &nn::Optimizer::state, "What it remembers of earlier steps.");
  nb::class_<nn::SGD, nn::Optimizer>(m, "SGD", "Gradient descent, with momentum.")
      .def(
          "__init__",
          [](nn::SGD* o, const Params& params, double lr, double momentum, double weight_decay,
             bool nesterov) {
            new (o) nn::SGD(
                params, {.lr = lr, .momentum = momentum, .weight_decay = weight_decay, .nesterov = nesterov});
          },
          "params"_a, "lr"_a = 0.001, "momentum"_a = 0.0, "weight_decay"_a = 0.0, "nesterov"_a = false);
  nb::class_<nn::LARS, nn::Optimizer>(m, "LARS", "SGD with steps in proportion to the norm of the parameter.")
      .def(
          "__init__",
          [](nn::LARS* o, const Params& params, double lr, double momentum, double weight_decay,
             bool nesterov, double tcoef) {
            new (o) nn::LARS(params, {.lr = lr,
                                      .momentum = momentum,
                                      .weight_decay = weight_decay,
                                      .trust = tcoef,
                                      .nesterov = nesterov});
          },
          "params"_a, "lr"_a = 0.001, "momentum"_a = 0.9, "weight_decay"_a = 1e-4, "nesterov"_a = false,
          "tcoef"_a = 0.001);
  nb::class_<nn::Muon, nn::Optimizer>(m, "Muon", "SGD of matrices, with the momentum made orthogonal.")
      .def(
          "__init__",
          [](nn::Muon* o, const Params& params, double lr, double momentum, double weight_decay,
             int64_t ns_steps, std::vector<double> coefficients, bool nesterov) {
            new (o) nn::Muon(params, {.lr = lr,
                                      .momentum = momentum,
                                      .weight_decay = weight_decay,
                                      .steps = ns_steps,
                                      .coefficients = std::move(coefficients),
                                      .nesterov = nesterov});
          },
          "params"_a, "lr"_a = 0.001, "momentum"_a = 0.95, "weight_decay"_a = 0.1, "ns_steps"_a = 5,
          "ns_coefficients"_a = nb::make_tuple(3.4445, -4.775, 2.0315), "nesterov"_a = true);
  nb::class_<nn::AdamW, nn::Optimizer>(m, "AdamW", "Adam with decay of the weights apart from the gradient.")
      .def(
          "__init__",
          [](nn::AdamW* o, const Params& params, double lr, double b1, double b2, double eps,
             double weight_decay) {
            new (o)
                nn::AdamW(params, {.lr = lr, .b1 = b1, .b2 = b2, .eps = eps, .weight_decay = weight_decay});
          },
          "params"_a, "lr"_a = 0.001, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-8, "weight_decay"_a = 0.01);
  nb::class_<nn::Adam, nn::Optimizer>(m, "Adam",
                                      "Steps scaled by averages of the gradient and of its square.")
      .def(
          "__init__",
          [](nn::Adam* o, const Params& params, double lr, double b1, double b2, double eps) {
            new (o) nn::Adam(params, {.lr = lr, .b1 = b1, .b2 = b2, .eps = eps});
          },
          "params"_a, "lr"_a = 0.001, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-8);
  nb::class_<nn::LAMB, nn::Optimizer>(m, "LAMB",
                                      "AdamW with steps in proportion to the norm of the parameter.")
      .def(
          "__init__",
          [](nn::LAMB* o, const Params& params, double lr, double b1, double b2, double eps,
             double weight_decay) {
            new (o)
                nn::LAMB(params, {.lr = lr, .b1 = b1, .b2 = b2, .eps = eps, .weight_decay = weight_decay});
          },
          "params"_a, "lr"_a = 0.001, "b1"_a = 0.9, "b2"_a = 0.999, "eps"_a = 1e-6, "weight_decay"_a = 0.0);
  nb::class_<nn::OptimizerGroup, nn::Optimizer>(m, "OptimizerGroup", "Several optimisers as one.")
      .def(
          "__init__",
          [](nn::OptimizerGroup* o, const nb::args& parts) {
            std::vector<std::shared_ptr<nn::Optimizer>> all;
            for (nb::handle p : parts) {
              if (!nb::isinstance<nn::Optimizer>(p)) wrong_type("an optimizer", p);
              all.push_back(nb::cast<std::shared_ptr<nn::Optimizer>>(p));
            }
            new (o) nn::OptimizerGroup(std::move(all));
          },
          "optimizers"_a);
  m.def("clip_grad_norm", &nn::clip_grad_norm, "params"_a, "max_norm"_a,
        "Scales gradients so that their norm is at most max_norm; returns the norm before.");
  m.def("clip_grad_value", &nn::clip_grad_value, "params"_a, "clip_value"_a,
        "Each number of the gradients within bounds.");
}

}  // namespace quern::python
