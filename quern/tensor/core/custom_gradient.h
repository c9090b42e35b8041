// Gradients of custom kernels, given by whoever wrote the kernel. A CALL says by its tag which it has.
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

// custom_kernel() with a gradient that is told apart by its identity.
std::vector<Tensor> custom_kernel(const std::vector<Tensor>& arguments, const KernelBody& body,
                                  const KernelGradient& gradient, const void* identity);

}  // namespace quern
