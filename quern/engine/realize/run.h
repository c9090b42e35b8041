// Runs a schedule on memory: step by step, each with the program that programs.h has for its kernel.
#pragma once

#include "quern/engine/realize/schedule_cache.h"

namespace quern {

// DEBUG=2 tells what ran and how long it took; 3 adds why memory was kept.
void run_schedule(const Prepared& prepared, const UOps& memory, const VariableValues& given);

// Operations on values (not on indices), each as often as the loops around it run.
int64_t estimated_operations(const UOp& kernel, const VariableValues& variables);

}  // namespace quern
