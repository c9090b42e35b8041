// backward() and gradient() of tensors.
#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/tensor.h"
#include "quern/tensor/gradient/ended_graphs.h"
#include "quern/tensor/gradient/gradient.h"

namespace quern {
namespace {

// The gradient of the loss itself: what the user gave, or 1 where there is only one element.
UOp seed_for(const char* caller, const UOp& loss, const std::optional<Tensor>& given) {
  if (!loss.dtype().is_float())
    throw DTypeError(
        fmt::format("{}: the loss has dtype {}; only floats have gradients", caller, loss.dtype().name()));
  if (given) {
    const UOp seed = given->uop();
    if (seed.dtype() != loss.dtype())
      throw DTypeError(fmt::format("{}: the loss has dtype {}, the gradient given for it {}", caller,
                                   loss.dtype().name(), seed.dtype().name()));
    if (!same_sizes(seed.shape(), loss.shape()))
      throw ShapeError(fmt::format("{}: the loss has shape {}, the gradient given for it {}", caller,
                                   shape_text(Sources(loss.shape())), shape_text(Sources(seed.shape()))));
    return seed;
  }
  if (!elements_in(loss.shape()).equals(1))
    throw ShapeError(fmt::format(
        "{}: a loss of shape {} needs a gradient of that shape; only one element has one by itself", caller,
        shape_text(Sources(loss.shape()))));
  return gradient_seed(loss);
}

}  // namespace

void Tensor::backward(const std::optional<Tensor>& seed) const {
  const UOp loss = uop(), given = seed_for("backward", loss, seed);
  const std::vector<std::shared_ptr<detail::TensorState>> states = detail::states_with_grad();
  UOps targets;
  for (const auto& state : states) targets.push_back(state->get());
  UOps gradients = quern::gradient(loss, targets, given);
  if (std::ranges::none_of(gradients, [](const UOp& g) { return bool(g); }))
    throw Error(
        has_lost_graphs(loss)
            ? "backward: the loss was computed of what has been realized since, of which only the "
              "values are known: call it before realize(); reading with item() or numpy() does no harm"
            : "backward: the loss depends on no tensor that requires a gradient");
  for (size_t i = 0; i < states.size(); i++) {  // all of them are sums before any is changed: a sum may throw
    if (!gradients[i] || !states[i]->grad) continue;
    gradients[i] = states[i]->grad->get() + gradients[i];
    (void)gradients[i].shape();
  }
  for (size_t i = 0; i < states.size(); i++) {
    if (!gradients[i]) continue;
    if (const auto& grad = states[i]->grad; grad && detail::is_writable(grad->get()))
      detail::assign_view("backward", grad->get(),
                          Tensor(gradients[i]));  // where it is: a jit can replay that
    else if (grad)
      grad->set(gradients[i]);
    else
      Tensor::of_state(states[i]).set_grad(Tensor(gradients[i]));
  }
}

std::vector<Tensor> Tensor::gradient(const std::vector<Tensor>& targets, const std::optional<Tensor>& seed,
                                     bool zeros_if_unused) const {
  const UOp loss = uop(), given = seed_for("gradient", loss, seed);
  UOps nodes;
  for (size_t i = 0; i < targets.size(); i++) {
    nodes.push_back(targets[i].uop());
    if (!nodes.back().dtype().is_float())
      throw DTypeError(fmt::format("gradient: target {} has dtype {}; only floats have gradients", i,
                                   nodes.back().dtype().name()));
  }
  const UOps gradients = quern::gradient(loss, nodes, given);
  std::vector<Tensor> results;
  for (size_t i = 0; i < targets.size(); i++) {
    if (is_graph_lost(loss, nodes[i], bool(gradients[i])))
      throw Error(fmt::format(
          "gradient: how the loss depends on target {}, of shape {}, is not known: what it was computed of "
          "has "
          "been realized since, and only the values are known; ask before realize(), or detach() what no "
          "gradient is to go through; reading with item() or numpy() does no harm",
          i, shape_text(Sources(nodes[i].shape()))));
    if (!gradients[i] && !zeros_if_unused)
      throw Error(fmt::format(
          "gradient: the loss does not depend on target {}, of shape {} (zeros_if_unused gives zeros)", i,
          shape_text(Sources(nodes[i].shape()))));
    results.emplace_back(gradients[i] ? gradients[i]
                                      : quern::full(nodes[i].shape(), UOp::constant(nodes[i].dtype(), 0.0)));
  }
  return results;
}

}  // namespace quern
