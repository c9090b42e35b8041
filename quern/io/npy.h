// Arrays of NumPy: files .npy of one, .npz of several by name.
#pragma once

#include <span>
#include <string>

#include "quern/engine/realize/data.h"
#include "quern/tensor/core/state_dict.h"

namespace quern::io {

// Mapped, not read, unless the numbers are big endian. Arrays of records, texts, objects, times and complex
// numbers are refused: an Error names the file and what is wrong.
Tensor npy_load(const std::string& path);
StateDict npz_load(const std::string& path);  // the names without .npy

// Computes the tensors, and writes them. A file of that name stays as it is until the new one is complete.
// DTypeError for what NumPy has no dtype for: bfloat16 and the floats of 8 bits.
void npy_save(const Tensor& tensor, const std::string& path);
void npz_save(const StateDict& tensors, const std::string& path);

// From memory, which is kept as long as tensors need it. `name` stands in errors.
Tensor npy_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive);
StateDict npz_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive);

}  // namespace quern::io
