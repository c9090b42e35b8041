// Kernels of one device that run one after the other: prepared once, and run often, each time on memory and
// with values of variables that are given anew.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quern/runtime/device.h"

namespace quern {

// Some bytes of one of the pieces of memory that a run is given.
struct MemoryPart {
  size_t memory;
  int64_t offset, bytes;

  void* in(std::span<void* const> given) const {
    void* const base = given[memory];
    return base == nullptr ? nullptr : static_cast<std::byte*>(base) + offset;
  }
};

struct Launch {
  std::shared_ptr<const Program> program;
  std::vector<MemoryPart> arguments;
  std::vector<std::pair<std::string, size_t>> variables;  // name, which of the values
};

// Device::prepare() makes them. One run at a time.
class Batch {
 public:
  Batch() = default;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  virtual ~Batch() = default;

  // Each piece of memory is as large as the Places say, and each value within the bounds of its variable.
  // `apart`: no two pieces overlap.
  virtual void run(std::span<void* const> memory, std::span<const int64_t> values, bool apart) = 0;
};

// What every device can do: Program::run of one after the other.
std::unique_ptr<Batch> run_each(std::vector<Launch> launches);

}  // namespace quern
