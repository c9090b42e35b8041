// Keccak, of which SHA-3 is made, as a kernel: the state of a message depends on all blocks before.
#pragma once

#include "quern/tensor/core/tensor.h"

namespace quern {

// The states, (..., 25), after all blocks of messages that are filled up to whole blocks: (..., blocks,
// words) of uint64, of which each block is combined with the first words of the state.
Tensor keccak_states(const Tensor& blocks);

}  // namespace quern
