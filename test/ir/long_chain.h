// How long the long chains of tests are: long enough that recursion would run out of stack, short under
// sanitizers.
#pragma once

#include "test/fuzz.h"

namespace quern {

inline constexpr int kLongChain = kSanitized ? 100'000 : 1'000'000;

}  // namespace quern
