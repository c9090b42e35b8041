#include "quern/ir/device_spec.h"

#include <fmt/format.h>

namespace quern {

std::string DeviceSpec::text() const {
  // Taken apart, so that a new field has to be named here: caches of code go by this text.
  const auto& [name_, units, per_unit, workgroup, warp_, local, registers_, vector, l1, l2, l3, buffers, f16,
               bf16, f64, fp8, i64, converts, fma, exp2, addresses] = *this;
  return fmt::format(
      "{} units={} threads={} workgroup={} warp={} local={} registers={} vector={} caches={}/{}/{} "
      "buffers={} "
      "has={:d}{:d}{:d}{:d}{:d} converts_float16={:d} fma={:d} exp2={:d} addresses64={:d}",
      name_, units, per_unit, workgroup, warp_, local, registers_, vector, l1, l2, l3, buffers, f16, bf16,
      f64, fp8, i64, converts, fma, exp2, addresses);
}

}  // namespace quern
