#include "quern/runtime/arguments.h"

#include <fmt/format.h>

#include "quern/base/error.h"

namespace quern {

const Argument& argument_of(const Parameter& param, std::span<const Argument> arguments,
                            std::string_view kernel) {
  if (param.slot >= std::ssize(arguments))
    throw Error(fmt::format("kernel {}: PARAM {} has no argument, {} are given", kernel, param.slot,
                            arguments.size()));
  const Argument& given = arguments[static_cast<size_t>(param.slot)];
  if (param.elements > given.bytes / param.element_bytes)
    throw Error(fmt::format("kernel {}: PARAM {} needs {} elements of {}, its argument has {} bytes", kernel,
                            param.slot, param.elements, param.dtype, given.bytes));
  return given;
}

int64_t value_of(const std::string& variable, int64_t min, int64_t max, const VariableValues& values,
                 std::string_view kernel) {
  const auto given = values.find(variable);
  if (given == values.end())
    throw Error(fmt::format("kernel {}: variable {} has no value", kernel, variable));
  if (given->second < min || given->second > max)
    throw Error(fmt::format("kernel {}: variable {} is {}, not from {} to {}", kernel, variable,
                            given->second, min, max));
  return given->second;
}

bool overlap(std::span<const Parameter> params, std::span<const Argument> arguments) {
  for (const Parameter& written : params) {
    if (!written.written) continue;
    const Argument& a = arguments[static_cast<size_t>(written.slot)];
    for (const Parameter& other : params) {
      const Argument& b = arguments[static_cast<size_t>(other.slot)];
      const auto *x = static_cast<const std::byte*>(a.memory), *y = static_cast<const std::byte*>(b.memory);
      if (other.slot != written.slot && x < y + b.bytes && y < x + a.bytes) return true;
    }
  }
  return false;
}

}  // namespace quern
