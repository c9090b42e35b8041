// What has run in this process, and how much memory is in use. Any thread may read and add.
#pragma once

#include <atomic>
#include <cstdint>

namespace quern {

struct GlobalCounters {
  static inline std::atomic<int64_t> kernels = 0;     // that ran
  static inline std::atomic<int64_t> operations = 0;  // arithmetic, estimated
  static inline std::atomic<int64_t> bytes = 0;       // moved from and to memory, estimated
  static inline std::atomic<int64_t> nanoseconds =
      0;  // that kernels and copies took; of replays with DEBUG=2 or PROFILE only
  static inline std::atomic<int64_t> searches = 0;  // for opts of a kernel (BEAM)
  static inline std::atomic<int64_t> mem_used = 0;  // of all devices, now
  static inline std::atomic<int64_t> mem_peak = 0;

  // All of them become 0 but mem_used, which is a fact; the peak starts from it.
  static void reset() {
    kernels = operations = bytes = nanoseconds = searches = 0;
    mem_peak = mem_used.load();
  }
};

}  // namespace quern
