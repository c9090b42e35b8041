// Arrays of other libraries: NumPy, and all that have a buffer or DLPack.
#pragma once

#include <nanobind/ndarray.h>

#include "python/src/bind.h"

namespace quern::python {

// One in the memory of the host, which is there for as long as the owner is.
struct Array {
  nb::object owner;
  std::byte* data;
  Ints shape, strides;  // in elements
  DType dtype;
  bool is_read_only;

  bool is_in_order() const;  // its elements lie behind each other
};

Array array_of(nb::handle data);  // a TypeError if it is none
Tensor copy_of(const Array& array, const std::string& device);

bool has_array_interface(nb::handle h);  // NumPy's arrays and scalars do, and others
bool is_numpy_scalar(nb::handle h);
nb::object dtype_of_numpy(nb::handle h);  // a dtype of NumPy; a TypeError if it is none of numbers

}  // namespace quern::python
