// Arrays of other libraries: NumPy, and all that have a buffer or DLPack.
#pragma once

#include <nanobind/ndarray.h>

#include "python/src/bind.h"

namespace quern::python {

DType dtype_of(nb::dlpack::dtype dtype);  // a DTypeError if there is none
Tensor from_array(nb::handle array, const std::string& device);

}  // namespace quern::python
