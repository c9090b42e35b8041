// BEAM: kernels get the opts with which they were measured to be fastest. What was found is kept, in this
// process and on disk.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "quern/codegen/opt/opt.h"
#include "quern/runtime/device.h"

namespace quern {

// For those who watch: which of how many kernels it is.
struct Turn {
  size_t number = 1, of = 1;
};

// None if nothing is to be searched: BEAM is not set, opts are given, the device has no times, or the
// kernel's loops stay as they are. One search runs at a time; others wait.
std::optional<Opts> searched_opts(Device& device, const UOp& kernel, Turn turn = {});

// By what a result is kept on disk.
std::string search_key(const Device& device, const UOp& kernel);

// As in a new process: what was found is on disk only. For tests.
void forget_searches();

}  // namespace quern
