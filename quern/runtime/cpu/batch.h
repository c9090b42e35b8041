// Kernels of the CPU as a list of calls: what Program::run finds out each time is found out once.
#pragma once

#include "quern/runtime/batch.h"

namespace quern::cpu {

std::unique_ptr<Batch> prepare(std::vector<Launch> launches);

}  // namespace quern::cpu
