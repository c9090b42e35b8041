// Gradients of custom kernels, given by whoever wrote the kernel. A kernel is known by its SINK.
#pragma once

#include <functional>
#include <span>

#include "quern/ir/uop.h"

namespace quern {

// `call` is CALL(SINK, arguments...). For each argument, in order: the gradient of its contents after the
// call, or none where nothing depends on them. Returns for each argument the gradient of its contents before
// the call, or none; an argument that is only written needs none.
using CustomGradient = std::function<UOps(const UOp& call, std::span<const UOp> gradients)>;

void set_custom_gradient(const UOp& sink, CustomGradient gradient);
CustomGradient custom_gradient(const UOp& sink);  // empty: none was given

}  // namespace quern
