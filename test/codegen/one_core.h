// Programs for one core of the CPU, run there on arrays of float32.
#pragma once

#include <utility>
#include <vector>

#include "quern/ir/pass/device_spec.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/runtime/device.h"

namespace quern {

inline DeviceSpec one_core() {
  DeviceSpec spec = Device::get("CPU").spec();
  spec.parallel.cores = 1;
  return spec;
}
inline DeviceSpec with_small_caches() {
  DeviceSpec spec = one_core();
  spec.memory.l3_bytes = 1;
  return spec;
}

inline void run_floats(const LinearProgram& program, const std::vector<std::pair<float*, size_t>>& arrays) {
  std::vector<Argument> arguments;
  for (const auto& [data, size] : arrays)
    arguments.push_back({data, static_cast<int64_t>(size * sizeof(float))});
  Device::get("CPU").compile(program)->run(arguments, {});
}

// Small whole numbers, whose sums are exact.
inline std::vector<float> small_integers(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; i++) values[i] = static_cast<float>((i * 7919) % 23) - 11;
  return values;
}

}  // namespace quern
