// The threads that run the parts of a kernel.
#include "quern/runtime/host/pool.h"

#include <gtest/gtest.h>

#include <chrono>

#include "test/threads/in_threads.h"

namespace quern {
namespace {

void count(void* context, int64_t i) {
  ++(*static_cast<std::vector<std::atomic<int>>*>(context))[static_cast<size_t>(i)];
}

TEST(PoolThreads, EveryPartOnce) {
  Pool pool(4);
  EXPECT_EQ(pool.threads(), 4);
  for (const int64_t parts : {0, 1, 2, 3, 4, 17, 1000}) {
    for (int round = 0; round < 20; round++) {
      std::vector<std::atomic<int>> counts(static_cast<size_t>(parts));
      pool.run(parts, count, &counts);
      for (const auto& c : counts) ASSERT_EQ(c, 1);
    }
  }
}

TEST(PoolThreads, AfterTheyFellAsleep) {
  Pool pool(3);
  for (int round = 0; round < 5; round++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<std::atomic<int>> counts(8);
    pool.run(8, count, &counts);
    for (const auto& c : counts) ASSERT_EQ(c, 1);
  }
}

TEST(PoolThreads, SeveralCallers) {
  Pool pool(3);
  in_threads([&](int) {
    for (int round = 0; round < 50; round++) {
      std::vector<std::atomic<int>> counts(9);
      pool.run(9, count, &counts);
      for (const auto& c : counts) ASSERT_EQ(c, 1);
    }
  });
}

TEST(PoolThreads, AloneAndUnused) {
  Pool alone(1);
  std::vector<std::atomic<int>> counts(5);
  alone.run(5, count, &counts);
  for (const auto& c : counts) EXPECT_EQ(c, 1);
  const Pool unused(4);
}

}  // namespace
}  // namespace quern
