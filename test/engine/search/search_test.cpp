// The search for opts by itself, with times that are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "quern/codegen/choose/actions.h"
#include "quern/engine/search/search.h"
#include "quern/engine/search/search_report.h"
#include "test/engine/searched_kernel.h"

namespace quern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

DeviceSpec plain() {
  DeviceSpec spec;
  spec.parallel.vector_bytes = 32;
  spec.has_float16 = spec.has_bfloat16 = spec.has_fp8 = false;
  return spec;
}

Optimisable matmul() {
  const std::optional<Optimisable> kernel = before_opts(matmul_kernel(), plain());
  if (!kernel) throw Error("it can be optimised");
  return *kernel;
}

// Times by a rule instead of a clock.
class MadeUp : public Measurer {
 public:
  std::function<double(const Opts&)> time;  // less than 0: dropped
  std::function<double(const Opts&)> time_again;
  int most_rounds = 100;
  int rounds = 0, compared = 0;
  std::vector<Opts> measured;

  void measure(std::vector<Candidate>& candidates, double /*best*/) override {
    rounds++;
    for (Candidate& c : candidates) {
      measured.push_back(c.opts);
      const double seconds = time(c.opts);
      if (seconds < 0)
        c.dropped = "too slow to compile";
      else
        c.seconds = seconds;
    }
  }
  void measure_again(std::vector<Candidate>& candidates) override {
    compared++;
    for (Candidate& c : candidates) c.seconds = (time_again ? time_again : time)(c.opts);
  }
  bool is_over() override { return rounds >= most_rounds; }
};

bool has(const Opts& opts, const Opt& opt) { return std::ranges::find(opts, opt) != opts.end(); }
constexpr Opt kBetter = {OptKind::UNROLL, 2, 8};

// What helps is found over several rounds.
TEST(Search, FindsWhatIsFastest) {
  const Optimisable kernel = matmul();
  MadeUp times;
  times.time = [&](const Opts& opts) {
    return 0.01 - (has(opts, kGood) ? 0.002 : 0) - (has(opts, kBetter) ? 0.003 : 0);
  };
  const Found found = search(kernel, 2, times);
  EXPECT_TRUE(has(found.best.opts, kGood) && has(found.best.opts, kBetter)) << to_text(found.best.opts);
  EXPECT_DOUBLE_EQ(found.best.seconds, 0.005);
  EXPECT_TRUE(std::ranges::is_sorted(found.candidates, {}, &Candidate::seconds));
  EXPECT_EQ(times.compared, 1);
}

TEST(Search, StopsWhenNothingIsGained) {
  const Optimisable kernel = matmul();
  MadeUp times;
  times.time = [](const Opts&) { return 0.01; };
  const Found found = search(kernel, 4, times);
  EXPECT_EQ(times.rounds, 3) << "the heuristic's, no opts, and a step from each";
  EXPECT_EQ(found.best.opts, kernel.chosen);
  EXPECT_EQ(times.compared, 0);
}

TEST(Search, IsNeverWorseThanTheHeuristic) {
  const Optimisable kernel = matmul();
  ASSERT_FALSE(kernel.chosen.empty());
  MadeUp times;
  times.time = [&](const Opts& opts) {
    return opts == kernel.chosen ? 0.02 : has(opts, kGood) ? 0.01 : 0.03;
  };
  times.time_again = [](const Opts&) { return 0.015; };  // it was chance
  EXPECT_EQ(search(kernel, 2, times).best.opts, kernel.chosen);
  times.time_again = nullptr;
  EXPECT_TRUE(has(search(kernel, 2, times).best.opts, kGood));
}

TEST(Search, WhatIsDroppedIsNotFollowed) {
  const Optimisable kernel = matmul();
  MadeUp times;
  times.time = [&](const Opts& opts) { return has(opts, kGood) ? -1.0 : has(opts, kBetter) ? 0.005 : 0.01; };
  const Found found = search(kernel, 2, times);
  EXPECT_TRUE(has(found.best.opts, kBetter));
  EXPECT_FALSE(has(found.best.opts, kGood));
  times.time = [](const Opts&) { return -1.0; };
  EXPECT_EQ(search(kernel, 2, times).best.opts, kernel.chosen) << "nothing could be measured";
  times.time = [&](const Opts& opts) { return opts == kernel.chosen ? -1.0 : 0.01; };
  EXPECT_NE(search(kernel, 2, times).best.opts, kernel.chosen) << "all others could";
}

TEST(Search, MeasuresAKernelOnce) {
  const Optimisable kernel = matmul();
  MadeUp times;
  times.time = [&](const Opts& opts) { return 0.01 / static_cast<double>(1 + opts.size()); };
  times.most_rounds = 4;
  (void)search(kernel, 3, times);
  std::set<const void*> seen;
  UOps alive;
  for (const Opts& opts : times.measured) {
    alive.push_back(apply_opts(kernel.program, opts, kernel.spec));
    EXPECT_TRUE(seen.insert(alive.back().node()).second) << to_text(opts);
  }
  EXPECT_GT(times.measured.size(), 50U);
}

TEST(Search, EndsWhenNoTimeIsLeft) {
  const Optimisable kernel = matmul();
  MadeUp times;
  times.time = [&](const Opts& opts) { return 0.01 / static_cast<double>(1 + opts.size()); };
  times.most_rounds = 2;
  const Found found = search(kernel, 3, times);
  EXPECT_EQ(found.candidates.size(), 2U);
}

TEST(Search, WhatTakesLongIsNotTriedWithoutOpts) {
  const Optimisable kernel = matmul();
  MadeUp times;
  times.time = [](const Opts&) { return 5.0; };
  times.most_rounds = 1;
  EXPECT_EQ(search(kernel, 3, times).candidates.size(), 1U);
}

// A step leads to what the heuristic does for a matrix product, and back.
TEST(Search, StepsAreOneOptMoreLessOrOther) {
  const Optimisable kernel = matmul();
  const Opts from = parse_opts("UPCAST(1, 8) UNROLL(2, 4)");
  std::set<std::string> steps;
  for (const Opts& opts : steps_from(from, kernel.program, kernel.spec)) steps.insert(to_text(opts));
  for (const char* expected :
       {"UNROLL(2, 4)", "UPCAST(1, 8)", "UPCAST(1, 16) UNROLL(2, 4)", "UPCAST(1, 8) UNROLL(2, 4) SWAP(0, 1)",
        "UPCAST(1, 8) UNROLL(2, 4) BLOCK(1, 4) PACK(1, 2)",
        "UPCAST(1, 8) UNROLL(2, 4) PADTO(0, 6) UPCAST(0, 6)"})
    EXPECT_TRUE(steps.contains(expected)) << expected;
  DeviceSpec threads = plain();
  threads.parallel.cores = 4;
  steps.clear();
  for (const Opts& opts : steps_from(parse_opts("BLOCK(1, 4)"), kernel.program, threads))
    steps.insert(to_text(opts));
  EXPECT_TRUE(steps.contains("THREAD(0, 4) BLOCK(1, 4)")) << "threads are outside of blocks";
  DeviceSpec groups = plain();
  groups.parallel.workgroup = 256;
  groups.memory.group_bytes = 32768;
  steps.clear();
  for (const Opts& opts : steps_from({}, kernel.program, groups)) steps.insert(to_text(opts));
  EXPECT_TRUE(steps.contains("LOCAL(1, 16)") && steps.contains("GROUP(2, 16)") && steps.contains("NOLOCALS"));
}

TEST(Search, IsTold) {
  Found found;
  found.chosen = {{kGood}, 0.002, ""};
  found.best = {{kBetter}, 0.001, ""};
  found.candidates = {found.best, found.chosen};
  for (int i = 0; i < 50; i++) found.candidates.push_back({{}, 0.01, ""});
  found.candidates.push_back({{}, Candidate::kNever, "more than 3000 instructions"});
  const std::string line = describe_search("r_64_64", found, 1.5, false);
  EXPECT_EQ(line, "beam   r_64_64                      53 candidates in 1.5 s: 1.000 ms, was 2.000 ms\n");
  const std::string table = describe_search("r_64_64", found, 1.5, true);
  EXPECT_THAT(table, AllOf(HasSubstr("1.000 ms  UNROLL(2, 8)  <- taken"),
                           HasSubstr("2.000 ms  UPCAST(0, 4)  <- the heuristic's"), HasSubstr("32 more"),
                           HasSubstr("dropped  more than 3000 instructions: no opts")));
  EXPECT_LT(std::ranges::count(table, '\n'), 30);
  EXPECT_EQ(progress_text("r_64_64", {2, 5}, 3, 12, 0.001, 0.002),
            "BEAM 2/5 r_64_64 [######                  ] 3/12  1.000 ms, was 2.000 ms");
}

}  // namespace
}  // namespace quern
