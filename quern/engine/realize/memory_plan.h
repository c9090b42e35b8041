// Where the memory that a schedule needs for itself lies: what is never in use at the same time shares it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "quern/schedule/schedule.h"

namespace quern {

inline constexpr int64_t kArenaAlignment = 256;

struct Lifetime {
  int64_t bytes;
  int64_t first, last;  // steps, both included
};
struct Placement {
  std::vector<int64_t> offsets;  // of each, aligned
  int64_t bytes = 0;             // of all together
};
// The largest first, each into the tightest gap that is free while it is in use.
Placement place(std::span<const Lifetime> lifetimes);

// Each LUNIQUE BUFFER of a schedule in the arena of its device, or in those of all its devices.
struct MemoryPlan {
  struct ArenaOffset {
    std::string device;
    int64_t offset;
  };
  std::unordered_map<UOp, std::vector<ArenaOffset>> places;
  std::map<std::string, int64_t> arenas;  // bytes, by device
  int64_t bytes_saved = 0;                // compared with memory of its own for each
};
MemoryPlan plan_memory(const Schedule& schedule);

}  // namespace quern
