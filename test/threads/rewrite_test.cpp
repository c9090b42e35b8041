// Several threads rewrite with the same rules, and are counted together.
#include <atomic>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/base/env.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/rewrite/trace.h"
#include "test/threads/in_threads.h"

namespace quern {
namespace {

const Rules simplest = [] {
  const Pat x = var("x");
  return RuleList{{x + 0, x}, {x * 1, x}};
};

TEST(RewriteThreads, BuildOneListAtOnce) {
  const Rules rules = [] {
    const Pat x = var("x");
    return RuleList{{x + 0, x}, {x * 1, x}};
  };
  std::atomic<int> right{0};
  in_threads([&](int t) {
    const UOp v = UOp::variable("t" + std::to_string(t), 0, 9);
    for (int i = 0; i < 200; i++) right += rules.apply((v + i) * 1).result == v + i ? 1 : 0;
  });
  EXPECT_EQ(right, 200 * kThreads);
}

TEST(RewriteThreads, ShareNodesAndRules) {
  for (const Order order : {Order::after_sources, Order::before_sources}) {
    std::atomic<int> right{0};
    in_threads([&](int t) {
      for (int i = 0; i < 100; i++) {
        const UOp v = UOp::variable("v" + std::to_string((t + i) % 5), 0, 9);
        UOp deep = v, wanted = v;
        for (int k = 0; k < 50; k++) deep = ((deep + 0) * 1) % (k + 2);
        for (int k = 0; k < 50; k++) wanted = wanted % (k + 2);
        right += graph_rewrite(deep, simplest, {.order = order}) == wanted ? 1 : 0;
      }
    });
    EXPECT_EQ(right, 100 * kThreads);
  }
}

TEST(RewriteThreads, AreCountedTogether) {
  const env::Override counting("TRACK_MATCH_STATS", 2);
  reset_match_statistics();  // looks at the variable anew
  const UOp n = UOp::variable("n", 0, 10);
  in_threads([&](int) {
    for (int i = 0; i < 50; i++) graph_rewrite((n + 0) % (i + 2), simplest, {.name = "counted together"});
  });
  EXPECT_THAT(match_statistics(), testing::ContainsRegex("counted together +400 .* 400"));
  EXPECT_THAT(match_statistics(), testing::ContainsRegex(" 400 / +400 .*x \\+ 0"));
  reset_match_statistics();
}

}  // namespace
}  // namespace quern
