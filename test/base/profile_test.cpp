#include "quern/base/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace quern {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Profiled {
  Profiled() { profile::reset(); }
  Profiled(const Profiled&) = delete;
  Profiled& operator=(const Profiled&) = delete;
  ~Profiled() { profile::reset(); }
  env::Override on{"PROFILE", 1};
};

TEST(Profile, NothingIsTimedWhileItIsOff) {
  profile::reset();
  const env::Override off("PROFILE", 0);
  {
    const profile::Timer timer("stage");
  }
  EXPECT_EQ(profile::report(), "");
}

TEST(Profile, KernelsByShareOfTime) {
  const Profiled profiled;
  profile::add({.name = "short", .device = "CPU", .kernel = 1, .seconds = 0.25, .operations = 1'000'000'000});
  for (int i = 0; i < 2; i++)
    profile::add(
        {.name = "long", .device = "CL", .kernel = 2, .times = 2, .seconds = 0.5, .bytes = 1'500'000'000});
  profile::add({.name = "long", .device = "CL", .kernel = 3, .seconds = 0.75});
  const std::string text = profile::report();
  EXPECT_THAT(text, ContainsRegex("kernels and copies 2\\.000 s .*, 3 in 6 runs"));
  EXPECT_THAT(text, ContainsRegex("long +CL +4 +1000\\.000 +50\\.0 +0\\.00 +3\\.00\n"
                                  "long +CL +1 +750\\.000 +37\\.5 +0\\.00 +0\\.00\n"
                                  "short +CPU +1 +250\\.000 +12\\.5 +4\\.00 +0\\.00\n"));
  EXPECT_THAT(text, Not(HasSubstr("compiling  ")));
}

TEST(Profile, ManyKernelsAreOneRow) {
  const Profiled profiled;
  for (uint64_t i = 0; i < 50; i++)
    profile::add({.name = "k", .device = "CPU", .kernel = i, .seconds = i < 10 ? 0.5 : 1});
  EXPECT_THAT(profile::report(), ContainsRegex("\n10 others +10 +5000\\.000 +11\\.1 "));
}

TEST(Profile, AStageIsTimedWithoutThoseInIt) {
  const Profiled profiled;
  const auto spend = [](int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  };
  {
    const profile::Timer outer("outer");
    for (int i = 0; i < 3; i++) {
      const profile::Timer inner("inner");
      spend(20);
    }
  }
  const std::string text = profile::report();
  EXPECT_THAT(text, ContainsRegex("compiling +calls.*\ninner +3 .*\nouter +1 ")) << "the longer one first";
}

TEST(Profile, AStageThatEndsByAnException) {
  const Profiled profiled;
  try {
    const profile::Timer outer("outer");
    const profile::Timer inner("inner");
    throw std::runtime_error("an end");
  } catch (const std::runtime_error&) {
    const profile::Timer after("after");
  }
  EXPECT_THAT(profile::report(), AllOf(ContainsRegex("\ninner +1 "), ContainsRegex("\nouter +1 "),
                                       ContainsRegex("\nafter +1 ")));
}

TEST(Profile, TheMostMemoryOfEachDevice) {
  const Profiled profiled;
  for (const int64_t bytes : {1'000'000, 3'000'000, 2'000'000}) profile::note_memory("CPU", bytes);
  profile::note_memory("CL", 500'000);
  EXPECT_THAT(profile::report(),
              AllOf(HasSubstr("peak memory of CPU: 3.000 MB\n"), HasSubstr("peak memory of CL: 0.500 MB\n")));
}

}  // namespace
}  // namespace quern
