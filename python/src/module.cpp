#include "python/src/bind.h"
#include "python/src/fork.h"

NB_MODULE(_core, m) {
  using namespace quern::python;
  m.doc() = "The core of quern. What users need is in the package quern.";
  nb::set_leak_warnings(false);  // tensors that a module holds live to the end of the process
  bind_host();
  bind_forks();
  bind_errors(m);
  bind_dtype(m);
  bind_device(m);
  bind_settings(m);
  bind_buffer(m);
  bind_uop(m);
  TensorClass tensor(m, "Tensor", nb::dynamic_attr(), nb::is_weak_referenceable(),
                     "Numbers in a shape. What is computed from them runs when it is asked for.");
  bind_values(tensor);
  bind_running(tensor);
  bind_making(tensor);
  bind_movement(tensor);
  bind_indexing(tensor);
  bind_elementwise(tensor);
  bind_operators(tensor);
  bind_reduce(tensor);
  bind_layers(tensor);
  bind_gradients(m);
  bind_signatures(m);
  bind_jit(m);
  bind_optim(m);
  bind_io(m);
  bind_llm(m);
}
