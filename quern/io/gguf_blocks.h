// The blocks of numbers that files of GGUF hold.
#pragma once

#include <cstdint>

#include "quern/tensor/core/tensor.h"

namespace quern::io {

struct BlockType {
  uint32_t id;  // in files
  const char* name;
  int64_t elements, bytes;  // of a block
  DType dtype;              // of the tensor
  Tensor (*values)(
      const Tensor&);  // from (blocks, bytes) of uint8 to (blocks, elements); null: they are plain
};

const BlockType* block_type(uint32_t id);  // null: quern does not read it

}  // namespace quern::io
