// Tensors by name: the parameters of a model, or what a file holds.
#pragma once

#include <map>
#include <string>

#include "quern/tensor/core/tensor.h"

namespace quern {

using StateDict = std::map<std::string, Tensor>;

}  // namespace quern
