// What optimisers (quern/nn/optim.py) take from the core.
#include "python/src/bind.h"
#include "quern/nn/training.h"
#include "quern/tensor/core/assign.h"

namespace quern::python {

using namespace nb::literals;

void bind_optim(nb::module_& m) {
  m.def("clip_grad_norm", &nn::clip_grad_norm, "params"_a, "max_norm"_a,
        "Scales gradients so that their norm is at most max_norm; returns the norm before.");
  m.def("clip_grad_value", &nn::clip_grad_value, "params"_a, "clip_value"_a,
        "Each number of the gradients within bounds.");
  m.def(
      "zeros_beside", [](const Tensor& x, nb::handle as) { return detail::zeros_beside(x, dtype(as)); },
      "x"_a, "dtype"_a, "Zeros in memory that is where x is, in the same parts.");
}

}  // namespace quern::python
