// Tensors whose memory is a file: kernels do not run there. What is computed of one is computed of a copy,
// and what is written goes there as a copy.
#pragma once

#include "quern/tensor/core/tensor.h"

namespace quern::detail {

bool is_on_disk(const UOp& u);

// The same value, with a copy on the device in place of each file that it is computed of. A part of a file is
// copied alone where its bytes lie in order.
UOp copied_from_disk(const UOp& value, const std::string& device);

// Through a view of `base`, which is a file: what happens to it. The value has the view's dtype and shape.
UOp written_to_disk(const char* who, const UOp& view, const UOp& base, const Tensor& value);

// Bitcasts to another width are nodes only over files, whose bytes they are a view of. Kernels know none: the
// same graph with arithmetic in their place.
UOp without_other_widths(const UOp& graph);
Tensor bitcast_to_width(const Tensor& x, DType dtype);  // the arithmetic

}  // namespace quern::detail
