// Tensors over memory of the host that is not copied.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "quern/tensor/core/tensor.h"

namespace quern {

// What holds memory that tensors are made over. If it has a function check(), that is called before the
// memory is used, and throws when it must not be any more.
struct KeepAlive {
  template <class Holder>
  KeepAlive(const std::shared_ptr<Holder>& holder) : memory(holder) {  // NOLINT(google-explicit-constructor)
    if constexpr (requires { holder->check(); }) check = [h = holder.get()] { h->check(); };
  }
  std::shared_ptr<void> memory;
  std::function<void()> check;
};

// On the default device if its memory is that of the host, else on the CPU. Memory that is not aligned as the
// dtype asks is copied.
Tensor tensor_in_place(std::span<std::byte> bytes, const Shape& shape, DType dtype,
                       const KeepAlive& keep_alive);

// A node over memory that holds the values of a tensor, which need not be the tensor's own: if it was
// computed, it stays what it is.
UOp values_in_memory(const Tensor& x);

}  // namespace quern
