#include "quern/ir/pass/device_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quern {

DeviceSpec DeviceSpec::one_thread() const {
  DeviceSpec one = *this;
  one.parallel.workgroup = 1;
  return one;
}

std::string DeviceSpec::text() const {
  // Taken apart, so that a new field has to be named here: caches of code go by this text.
  const auto& [name_, levels, tiers, speeds, buffers, f16, bf16, f64, fp8, i64, converts, fma, exp2,
               addresses] = *this;
  const auto& [cores, per_core, workgroup, warp, vector] = levels;
  const auto& [registers, thread, group, l1, l2, l3] = tiers;
  const auto& [cycle_ps, cycles, loads, stores, instructions, latency, l2_rate, l3_rate, memory_rate,
               all_memory, page, wake_us] = speeds;
  return fmt::format(
      "{} cores={} threads={} workgroup={} warp={} vector={} registers={} thread={} group={} caches={}/{}/{} "
      "buffers={} has={:d}{:d}{:d}{:d}{:d} converts_float16={:d} fma={:d} exp2={:d} addresses64={:d} "
      "rates={}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}/{}",
      name_, cores, per_core, workgroup, warp, vector, registers, thread, group, l1, l2, l3, buffers, f16,
      bf16, f64, fp8, i64, converts, fma, exp2, addresses, cycle_ps, fmt::join(cycles, ","), loads, stores,
      instructions, latency, l2_rate, l3_rate, memory_rate, all_memory, page, wake_us);
}

}  // namespace quern
