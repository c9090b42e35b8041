// Tensors over memory of the host that is not copied.
#pragma once

#include <memory>
#include <span>

#include "quern/tensor/tensor.h"

namespace quern {

// On the default device if its memory is that of the host, else on the CPU. Memory that is not aligned as the
// dtype asks is copied.
Tensor tensor_in_place(std::span<std::byte> bytes, const Shape& shape, DType dtype,
                       const std::shared_ptr<void>& keep_alive);

// A node over memory that holds the values of a tensor, which need not be the tensor's own: if it was
// computed, it stays what it is.
UOp values_in_memory(const Tensor& x);

}  // namespace quern
