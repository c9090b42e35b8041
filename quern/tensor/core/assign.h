// Writing into memory that tensors view.
#pragma once

#include "quern/tensor/core/tensor.h"

namespace quern::detail {

// The value whose elements are those of the view: a constant is that of the shape it was made with.
const UOp& whole_of(const UOp& view);
bool has_memory(const UOp& view);   // views of a BUFFER, or of an AFTER of one
bool is_writable(const UOp& view);  // it has memory, a place for each of its elements
void assign_view(const char* who, const UOp& view, const Operand& value);  // all views of its memory see it
void share_memory(const char* who, const Tensor& x);  // if others see its values: x and they get the same
// Memory of the shape of x, where x is: on several devices in the same parts.
// Memory for as many elements as there may be at most; symbolic sizes see the first of them.
UOp new_memory(const char* who, DType dtype, const UOps& sizes, const UOp& device);
UOp new_memory_like(const char* who, const Tensor& x, DType dtype);
// What was made in the shape of x, where x is on several devices, unless another place was asked for: cut as
// x is.
Tensor beside_parts(const Tensor& options, const Tensor& x, const TensorOptions& where);
Tensor in_new_memory(const char* who, const Tensor& x);  // x stored into a buffer of its own
Tensor zeros_beside(const Tensor& x, DType dtype);       // in memory that is where x is, in the same parts

}  // namespace quern::detail
