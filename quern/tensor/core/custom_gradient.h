// Gradients that are given by whoever wrote what they are of: a custom kernel, or a function of tensors. A
// CALL says by its tag which it has; the results of a function stand in a TUPLE before what it was given:
//
//   GETTUPLE(TUPLE(q, r, x), 0)   is q, and a gradient goes to x as the tag of the TUPLE says
#pragma once

#include <compare>
#include <functional>
#include <span>
#include <string>

#include "quern/ir/node/uop.h"
#include "quern/tensor/core/tensor.h"

namespace quern {

// `call` is CALL(SINK, arguments...). For each argument, in order: the gradient of its contents after the
// call, or none where nothing depends on them. Returns for each argument the gradient of its contents before
// the call, or none; an argument that is only written needs none.
using CustomGradient = std::function<UOps(const UOp& call, std::span<const UOp> gradients)>;

// `call` with the gradient. Those of one `identity` (a function, and the shapes it is told) for one kernel
// are the same: the last is kept.
struct GradientIdentity {
  const void* function = nullptr;
  std::string shapes = {};
  auto operator<=>(const GradientIdentity&) const = default;
};
UOp with_custom_gradient(const UOp& call, CustomGradient gradient, const GradientIdentity& identity);
CustomGradient custom_gradient(const UOp& call);  // empty: none was given

// What `function` computes: of `results`, computed from `inputs` in any way, what the gradient of the inputs
// is. `given`: the gradient of each result, zeros where there is none. Results and inputs are values as they
// were. Returns a gradient for each input, or none.
struct FunctionValues {
  std::vector<Tensor> given, results, inputs;
};
using FunctionGradient = std::function<std::vector<std::optional<Tensor>>(const FunctionValues& values)>;
// `results` with that gradient. Gradients of one identity are the same: the first is kept.
std::vector<Tensor> with_function_gradient(const std::vector<Tensor>& results,
                                           const std::vector<Tensor>& inputs,
                                           const FunctionGradient& gradient,
                                           const GradientIdentity& identity);
// Whether a node is such a TUPLE; what its results were computed from; and their gradients, of which there
// are as many, from those of the results, of which some may be none.
bool has_function_gradient(const UOp& tuple);
Sources function_inputs(const UOp& tuple);
UOps function_gradients(const UOp& tuple, std::span<const UOp> gradients);

// custom_kernel() with a gradient that is told apart by its identity.
std::vector<Tensor> custom_kernel(const std::vector<Tensor>& arguments, const KernelBody& body,
                                  const KernelGradient& gradient, const void* identity);

}  // namespace quern
