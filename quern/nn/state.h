// The tensors of a model: as a list to train, and by name to save and load.
#pragma once

#include "quern/nn/module.h"
#include "quern/tensor/core/state_dict.h"

namespace quern::nn {

namespace detail {
std::vector<Tensor> distinct(const std::vector<Tensor>& tensors);
void load(const StateDict& into, const StateDict& from, bool strict);
}  // namespace detail

// Its tensors by name. The same tensor may have several names.
template <class Model>
StateDict get_state_dict(const Model& model, const std::string& prefix = "") {
  StateDict all;
  each_tensor(
      model, [&](const std::string& name, const Tensor& t) { all.insert_or_assign(name, t); }, prefix);
  return all;
}

// Its tensors, each once, in the order of the members. Optimisers leave out those that refuse gradients, as
// running statistics do.
template <class Model>
std::vector<Tensor> get_parameters(const Model& model) {
  std::vector<Tensor> found;
  each_tensor(model, [&](const std::string&, const Tensor& t) { found.push_back(t); });
  return detail::distinct(found);
}

// Copies values into the model's tensors. An Error names what differs in shape, and, if strict, what is
// missing or not used; nothing has changed then. Values are converted to the dtypes, and copied to the
// devices, of the model's tensors.
template <class Model>
void load_state_dict(const Model& model, const StateDict& values, bool strict = true) {
  detail::load(get_state_dict(model), values, strict);
}

}  // namespace quern::nn
