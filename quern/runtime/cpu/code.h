// Machine code of a kernel as an object file, with all that has to be known to call it. It can be kept on
// disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/ir/node/arg.h"
#include "quern/runtime/arguments.h"

namespace quern::cpu {

struct Code {
  using Param = Parameter;
  struct Variable {
    std::string name;
    int64_t min = 0, max = 0;
  };

  std::string name;      // of the kernel
  std::string function;  // in the object
  std::vector<Param> params;
  std::vector<Variable> variables;  // in the order in which they are given
  int64_t scratch_bytes = 0, threads = 1;
  Texts opts;
  std::string object;

  std::string bytes() const;
  static std::optional<Code> from(std::string_view bytes);  // none: they are not what bytes() gave
};

}  // namespace quern::cpu
