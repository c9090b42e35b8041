#include "quern/engine/realize/memory_plan.h"

#include <gtest/gtest.h>

#include "test/fuzz.h"

namespace quern {
namespace {

TEST(MemoryPlan, WhatDoesNotMeetShares) {
  const Lifetime chain[] = {{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}};
  EXPECT_EQ(place(chain).bytes, 2048) << "two of them are in use at a time";
  const Lifetime together[] = {{256, 0, 3}, {256, 0, 3}};
  EXPECT_EQ(place(together).bytes, 512);
  EXPECT_EQ(place({}).bytes, 0);
}

TEST(MemoryPlanProperty, NoTwoThatAreInUseAtOnceOverlap) {
  const FuzzPlan plan = fuzz_plan(300, 20000);
  for (uint64_t n = plan.first; n < plan.first + plan.cases; n++) {
    std::mt19937_64 random = plan.generator(n);
    std::vector<Lifetime> lifetimes(static_cast<size_t>(pick(random, 0, 40)));
    int64_t sum = 0;
    for (Lifetime& l : lifetimes) {
      l.bytes = one_in(random, 10) ? 0 : pick(random, 1, 5000);
      l.first = pick(random, 0, 20);
      l.last = l.first + pick(random, 0, 10);
      sum += (l.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    }
    const Placement placed = place(lifetimes);
    EXPECT_LE(placed.bytes, sum);
    for (size_t i = 0; i < lifetimes.size(); i++) {
      EXPECT_EQ(placed.offsets[i] % kArenaAlignment, 0);
      EXPECT_LE(placed.offsets[i] + lifetimes[i].bytes, placed.bytes);
      for (size_t k = 0; k < i; k++) {
        const Lifetime &a = lifetimes[i], &b = lifetimes[k];
        const bool at_once = a.first <= b.last && b.first <= a.last && a.bytes > 0 && b.bytes > 0;
        const bool overlap = placed.offsets[i] < placed.offsets[k] + b.bytes &&
                             placed.offsets[k] < placed.offsets[i] + a.bytes;
        EXPECT_FALSE(at_once && overlap) << plan.rerun(n);
      }
    }
  }
}

}  // namespace
}  // namespace quern
