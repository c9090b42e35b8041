// Writing into memory that tensors view.
#pragma once

#include "quern/tensor/tensor.h"

namespace quern::detail {

bool has_memory(const UOp& view);  // movement ops over a BUFFER, or over an AFTER of one
void assign_view(const char* who, const UOp& view, const Operand& value);  // all views of its memory see it
Tensor in_new_memory(const char* who, const Tensor& x);  // x stored into a buffer of its own

}  // namespace quern::detail
