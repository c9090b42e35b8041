// The class UOp of Python, which several files add to.
#pragma once

#include "python/src/bind.h"

namespace quern::python {

using UOpClass = nb::class_<UOp>;

void bind_arithmetic(UOpClass& uop);    // operators, comparisons, and what number a node is
void bind_kernel_nodes(UOpClass& uop);  // places in memory, loads, stores
void bind_memory_of_nodes(UOpClass& uop);

UOp loaded(const UOp& u);  // the value at a place in memory; anything else is itself

}  // namespace quern::python
