// Schedules that were made before: a graph with its memory and the values of its variables taken out is the
// key, so that the same computation on other memory is scheduled once.
#pragma once

#include <atomic>
#include <memory>

#include "quern/engine/realize/memory_plan.h"
#include "quern/runtime/device.h"
#include "quern/schedule/schedule.h"

namespace quern {

struct Stripped {
  UOp sink;     // BUFFERs are PARAMs, numbered in the order in which they are met; BINDs have no value, and
                // variables of random numbers are numbered, too
  UOps memory;  // the BUFFER of each PARAM
  VariableValues variables;  // what the BINDs said
};
// An Error when a variable is bound to two values.
Stripped strip(const UOp& given);

struct Prepared {
  Schedule schedule;  // over the PARAMs
  MemoryPlan plan;
  mutable std::atomic<bool> compiled = false;  // its kernels were compiled ahead
};
std::shared_ptr<const Prepared> prepare(const UOp& stripped_sink);

struct CacheCounts {
  int64_t hits, misses, size;
};
CacheCounts schedule_cache_counts();
void clear_schedule_cache();

}  // namespace quern
