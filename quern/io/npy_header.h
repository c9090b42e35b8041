// The header of a file of NumPy: a dictionary as Python writes it, of three known keys.
#pragma once

#include <string>
#include <vector>

#include "quern/io/bytes.h"

namespace quern::io {

struct NpyHeader {
  std::string dtype;  // as NumPy writes it: "<f4"
  bool is_fortran_order = false;
  std::vector<int64_t> shape;  // sizes from 0
};

NpyHeader read_npy_header(ByteReader& in);  // what follows are the numbers

}  // namespace quern::io
