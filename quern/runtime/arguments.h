// What a program asks of the arguments of a run: the same on every device, with the same messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "quern/runtime/device.h"

namespace quern {

// A PARAM of a kernel.
struct Parameter {
  int64_t slot = 0;      // which of the arguments
  int64_t elements = 0;  // as many as it has at least; negative: any number
  int64_t element_bytes = 0;
  bool written = false;
  std::string dtype;  // of an element, for messages
};

// The argument of this PARAM; an Error if there is none, or if it is too small.
const Argument& argument_of(const Parameter& param, std::span<const Argument> arguments,
                            std::string_view kernel);

// The value of a variable; an Error if it has none, or one out of its bounds.
int64_t value_of(const std::string& variable, int64_t min, int64_t max, const VariableValues& values,
                 std::string_view kernel);

// Does memory that is written overlap that of another PARAM? Each has its argument.
bool overlap(std::span<const Parameter> params, std::span<const Argument> arguments);

}  // namespace quern
