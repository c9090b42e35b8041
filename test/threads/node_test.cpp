// Several threads make, share, drop and ask nodes at once.
#include <array>
#include <atomic>
#include <vector>

#include <gtest/gtest.h>

#include "quern/base/env.h"
#include "quern/ir/node/uop.h"
#include "test/threads/in_threads.h"

namespace quern {
namespace {

// A graph that depends on the seed alone.
UOp build(int seed, int size) {
  const UOp n = UOp::variable("n", 0, 9), r = UOp::range(n + 1, seed % 3);
  UOp x = n * 3 + r;
  for (int i = 0; i < size; i++) x = max(x + (i * 7 + seed) % 5, x % (i % 3 + 2));
  return x;
}

TEST(Threads, MakeTheSameNodes) {
  const size_t before = live_nodes();
  {
    std::array<std::vector<UOp>, kThreads> made;
    in_threads([&](int t) {
      for (int i = 0; i < 60; i++) made[static_cast<size_t>(t)].push_back(build(i % 20, 20));
    });
    for (const auto& mine : made)
      for (size_t i = 0; i < mine.size(); i++) ASSERT_TRUE(same(mine[i], made[0][i]));
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(Threads, DropAndMakeAgain) {
  // Few keys and no node kept: threads meet in nodes that others are about to free.
  const size_t before = live_nodes();
  in_threads([&](int t) {
    for (int i = 0; i < 3000; i++) {
      const UOp x = UOp::variable("shared", 0, 1 + i % 2) + (i + t) % 2;
      ASSERT_EQ(x.src(0).arg().variable().name, "shared");
      ASSERT_TRUE(same(x, UOp::variable("shared", 0, 1 + i % 2) + (i + t) % 2));
    }
  });
  EXPECT_EQ(live_nodes(), before);
}

TEST(Threads, AskForFactsAtOnce) {
  const size_t before = live_nodes();
  for (int round = 0; round < 20; round++) {
    const UOp x = build(round, 60);
    const UOp tensor =
        UOp::make(Op::PARAM, dtypes::float32, {UOp::variable("n", 1, 9), UOp::index(round + 1)}, 0);
    const UOp sum = tensor + UOp::alu(Op::EXP2, {tensor});
    in_threads([&](int t) {
      for (int i = 0; i < 4; i++) switch ((t + i) % 4) {
          case 0: ASSERT_GE(x.vmax(), x.vmin()); break;
          case 1: ASSERT_EQ(x.ranges().size(), 1U); break;
          case 2: ASSERT_EQ(sum.shape().size(), 2U); break;
          default: ASSERT_EQ(x.key().size(), 32U); break;
        }
      // A range's own list of ranges is made and freed by whoever is last.
      const UOp r = UOp::range(round + 2, 77);
      ASSERT_TRUE(same(r.ranges()[0], r));
    });
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(Threads, WalkSubstituteAndFree) {
  const size_t before = live_nodes();
  {
    const UOp shared = build(1, 200), n = UOp::variable("n", 0, 9);
    in_threads([&](int t) {
      for (int i = 0; i < 10; i++) {
        const UOp other = UOp::variable("m", 0, 1 + (t + i) % 4);
        const UOp x = shared.substitute({{n, other}});
        ASSERT_TRUE(same(x.substitute({{other, n}}), shared));
        ASSERT_EQ(x.toposort().size(), shared.toposort().size());
      }
    });
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(Threads, FreeWhatOthersMade) {
  const size_t before = live_nodes();
  std::vector<UOp> made(kThreads);
  for (int round = 0; round < 5; round++) {
    in_threads([&](int t) { made[static_cast<size_t>(t)] = build(t + 10 * round, 300); });
    in_threads([&](int t) { made[static_cast<size_t>((t + 1) % kThreads)] = UOp(); });
  }
  EXPECT_EQ(live_nodes(), before);
}

TEST(Threads, ReadVariablesThatAreOverridden) {
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 200; i++) {
      const env::Override debug("DEBUG", i % 8);
      const env::Override trace("REWRITE_TRACE", "file" + std::to_string(i % 3));
    }
    done = true;
  });
  while (!done) {
    EXPECT_LE(env::DEBUG(), 7);
    const std::string& path = env::REWRITE_TRACE();  // once: the next reading may give another
    EXPECT_TRUE(path.empty() || path.starts_with("file")) << path;
  }
  writer.join();
}

}  // namespace
}  // namespace quern
