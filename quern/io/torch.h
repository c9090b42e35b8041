// Checkpoints of PyTorch: what torch.save wrote, since version 1.6.
#pragma once

#include <span>
#include <string>

#include "quern/tensor/state_dict.h"

namespace quern::io {

// The tensors of the file by their places: dictionaries and lists in each other give names with dots, as
// "model.0.weight"; a file that is one tensor has it by the name "". What is no tensor is left out. Nothing
// of the file is run; objects other than tensors, parameters and containers are refused: an Error names them.
// The file is mapped, not read; tensors that share memory in it share it here.
StateDict torch_load(const std::string& path);

// From memory, which is kept as long as tensors need it. `name` stands in errors.
StateDict torch_parse(std::span<std::byte> bytes, const std::string& name,
                      const std::shared_ptr<void>& keep_alive);

}  // namespace quern::io
