// Gradients of tensor-level graphs: one walk from a loss back to what it is made from, by the rules in
// gradient_rules.cpp. The gradients are ordinary nodes, so they have gradients themselves.
#pragma once

#include <span>

#include "quern/ir/node/uop.h"

namespace quern {

// For each target the sum over all elements of the loss of d loss / d target * seed, with the shape and dtype
// of the target; none where the loss does not depend on the target. Loss and targets hold floats (else
// DTypeError); the seed has the shape and dtype of the loss. Sums are taken in the order of the graph, the
// same in every process.
//
// A reshape is the value that it reshapes: the gradient of a target that is a RESHAPE counts every use of
// that value, because reshapes of reshapes are one node and do not show which of them a user took. FUNCTIONs
// are inlined.
UOps gradient(const UOp& loss, std::span<const UOp> targets, const UOp& seed);

// d loss / d loss: ones.
UOp gradient_seed(const UOp& loss);

}  // namespace quern
