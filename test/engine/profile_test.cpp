// PROFILE=1: what runs is in the table.
#include "quern/base/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/engine/jit/jit.h"
#include "quern/quern.h"
#include "test/runtime/temporary_folder.h"

namespace quern {
namespace {

using testing::ContainsRegex;
using testing::IsEmpty;

Tensor ones(int64_t size, const std::string& device) {
  const std::vector<float> values(static_cast<size_t>(size * size), 1);
  return Tensor::from(values, Shape{size, size}, {.device = device}).realize();
}

class ProfileOfRuns : public testing::Test {
 protected:
  void SetUp() override { profile::reset(); }
  void TearDown() override { profile::reset(); }

 private:
  const TemporaryFolder folder_;
  const env::Override on_{"PROFILE", 1}, cache_{"CACHE", 1}, place_{"QUERN_CACHE_DIR", folder_.path()};
};

TEST_F(ProfileOfRuns, KernelsStagesAndMemory) {
  const Tensor x = ones(37, "CPU");  // of a size that no other test has: it is compiled here
  x.matmul(x).realize();
  const std::string text = profile::report();
  EXPECT_THAT(text, ContainsRegex("\nr_37_37 +CPU +1 +[0-9.]+ +100\\.0 +[0-9.]+ +[0-9.]+\n"));
  for (const char* stage : {"ranges", "choose opts", "accumulators", "schedule: the rest", "lower: the rest",
                            "LLVM", "found on disk"})
    EXPECT_THAT(text, ContainsRegex("\n" + std::string(stage) + " +1 +[0-9.]+ +[0-9.]+\n"));
  EXPECT_THAT(text, ContainsRegex("peak memory of CPU: [0-9.]+ MB\n"));
}

TEST_F(ProfileOfRuns, EqualKernelsAreOneRow) {
  const Tensor x = ones(5, "INTERP");
  for (int i = 0; i < 3; i++) (x + i).realize();
  EXPECT_THAT(profile::report(), ContainsRegex(" in 3 runs"));
}

TEST_F(ProfileOfRuns, Copies) {
  const Tensor x = ones(6, "INTERP");
  const Tensor y = x.to("INTERP:1").realize();
  EXPECT_THAT(profile::report(), ContainsRegex("\ncopy from INTERP +INTERP:1 +1 "));
}

TEST_F(ProfileOfRuns, ReplaysOfAJit) {
  auto twice = jit([](const Tensor& x) { return (x * 2).matmul(x); });
  const Tensor x = ones(7, "CPU");
  for (int i = 0; i < 5; i++) (void)twice(x);
  EXPECT_THAT(profile::report(), ContainsRegex("\nr_7_7 +CPU +5 "));
}

TEST(Profile, IsPrintedWhenTheProgramEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [] {
    env::set("PROFILE", 1);
    (ones(3, "INTERP") + 1).realize();
    std::exit(7);  // NOLINT(concurrency-mt-unsafe)
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(7), "profile: .* s in all; .*\n.*\n.*\nkernel +device +calls");
}

TEST(Profile, NothingIsPrintedOtherwise) {
  profile::reset();
  (ones(4, "INTERP") + 1).realize();
  EXPECT_THAT(profile::report(), IsEmpty());
}

}  // namespace
}  // namespace quern
