// Files of the format GGUF: the weights of a model, often quantised, and what else is known of it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "quern/engine/realize/data.h"
#include "quern/tensor/core/state_dict.h"

namespace quern::io {

struct GgufValue {
  std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<GgufValue>> value;
};

struct Gguf {
  std::map<std::string, GgufValue> metadata;
  StateDict tensors;
};

// The file is mapped, not read. F32, F16, BF16, F64 and integers are in place; the blocks of Q4_0, Q4_1,
// Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K and MXFP4 are in place too, and become float32 where they are used: the
// conversion is part of the graph. Shapes are those of the rest of quern: the last axis is the one whose
// elements are neighbours. Errors name the file and what is wrong.
// Of a model in several files, model-00001-of-00003.gguf, the first is given: the others lie beside it.
Gguf gguf_load(const std::string& path);

// From memory, which is kept as long as tensors need it. `name` stands in errors.
Gguf gguf_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive);

}  // namespace quern::io
