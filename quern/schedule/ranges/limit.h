// Kernels with more buffers than the device allows are cut: a part of the value is materialised first.
#pragma once

#include "quern/schedule/schedule.h"

namespace quern {

int64_t buffer_limit(const Texts& device, const SpecOf& spec_of);  // 0: none

// How many a kernel of several outputs may have: it should stay small, whatever the device allows.
int64_t most_buffers(const Texts& device, const SpecOf& spec_of);

UOp limit_buffers(const UOp& sink, const SpecOf& spec_of);

}  // namespace quern
