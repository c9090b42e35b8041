// Checkpoints of PyTorch: what torch.save wrote, since version 1.6.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "quern/engine/realize/data.h"
#include "quern/tensor/core/state_dict.h"

namespace quern::io {

// The tensors of the file by their places: dictionaries and lists in each other give names with dots, as
// "model.0.weight"; a file that is one tensor has it by the name "". What is no tensor is left out. Nothing
// of the file is run; objects other than tensors, parameters and containers are refused: an Error names them.
// The file is mapped, not read; tensors that share memory in it share it here.
StateDict torch_load(const std::string& path);

// What torch.save was given, nested as it was. A torch.Size is a tuple, a device its text, a storage a tensor
// of one axis, an OrderedDict a dictionary; a class is its name as text.
struct TorchBytes {
  std::string bytes;
};
struct TorchItems {
  enum class Kind : uint8_t { List, Tuple, Set, FrozenSet, Dict };
  Kind kind = Kind::List;
  std::vector<uint32_t> items;  // places of values; of Dict: key, value, key, value, ...
};
using TorchValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, TorchBytes, DType, Tensor, TorchItems>;

// Each value refers only to values before it; the last is the whole. What was one object is one value,
// however often it is referred to: a small file cannot become a large tree.
using TorchValues = std::vector<TorchValue>;
TorchValues torch_load_nested(const std::string& path);

// From memory, which is kept as long as tensors need it. `name` stands in errors.
StateDict torch_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive);
TorchValues torch_parse_nested(std::span<std::byte> bytes, const std::string& name,
                               const KeepAlive& keep_alive);

}  // namespace quern::io
