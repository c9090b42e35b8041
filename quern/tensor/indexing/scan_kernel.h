// Accumulations along an axis as kernels: each result is the state of all elements up to its own.
//
// The axis is cut into blocks of a fixed length. Each block is accumulated from the neutral state, and what
// the blocks before it came to is put in front: so the order, and with it each bit, is fixed by the length of
// the axis alone, whatever is done at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "quern/tensor/indexing/loop_kernel.h"

namespace quern::detail {

// A state is a list of values. Everything here is made of scalars of kernel level.
struct Accumulation {
  std::string name;
  std::vector<DType> states, results;
  bool in_order = false;  // one element after the other, in one block: what a block comes to may be infinite
  UOps neutral;           // the state that changes none, to the bit
  // The state of one element: one value of each input, and where it stands along the axis.
  std::function<UOps(const UOps& elements, const UOp& position)> first;
  std::function<UOps(const UOps& before, const UOps& next)> combine;
  std::function<UOps(const UOps& state)> result;
};

// The inputs have one shape, and no symbolic size; the results have that shape, too. `reversed`: from the
// last element to the first. The gradient is known by the accumulation's name and shapes, the axis and
// direction.
std::vector<Tensor> accumulated_along(const Accumulation& a, const std::vector<Tensor>& inputs, int64_t axis,
                                      bool reversed, const LoopGradient& gradient = {});

}  // namespace quern::detail
