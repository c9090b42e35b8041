// Files of the format safetensors: tensors by name, read in place.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quern/engine/realize/data.h"
#include "quern/tensor/core/state_dict.h"

namespace quern::io {

using Metadata = std::map<std::string, std::string>;

// The file is mapped, not read: a tensor costs time when it is used. Errors name the file, the tensor and
// what is wrong.
StateDict safe_load(const std::string& path);
Metadata safe_load_metadata(const std::string& path);

// Computes the tensors, and writes them. A file of that name stays as it is until the new one is complete.
void safe_save(const StateDict& tensors, const std::string& path, const Metadata& metadata = {});

// The same with the names in the order of the file.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
NamedTensors safe_load_in_order(const std::string& path);
void safe_save_in_order(const NamedTensors& tensors, const std::string& path, const Metadata& metadata = {});

// The JSON before the data, which begins 8 bytes behind its length. It has been checked as safe_load does.
std::string safe_load_header(const std::string& path);

// From memory, which is kept as long as tensors need it. `name` stands in errors.
StateDict safe_parse(std::span<std::byte> bytes, const std::string& name, const KeepAlive& keep_alive,
                     Metadata* metadata = nullptr);

}  // namespace quern::io
