#include "quern/schedule/facts/memory_view.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace quern {
namespace {

// Whichever is asked first.
TEST(MemoryUnder, IsThatOfTheWholeChain) {
  const UOp device = UOp::make(Op::DEVICE, dtypes::void_, {}, Texts{"CPU"});
  const UOp memory = UOp::make(Op::BUFFER, dtypes::float32,
                               {UOp::make(Op::UNIQUE, dtypes::void_, {}, 987654), device}, int64_t{4});
  for (const bool last_first : {false, true}) {
    UOps states{memory};
    for (int64_t i = 0; i < 1000; i++)
      states.push_back(UOp::make(Op::AFTER, dtypes::float32,
                                 {states.back(), UOp::make(Op::NOOP, dtypes::void_, {}, {}, i)}));
    if (last_first) std::ranges::reverse(states);
    for (const UOp& state : states) ASSERT_TRUE(same(memory_under(state), memory));
  }
}

}  // namespace
}  // namespace quern
