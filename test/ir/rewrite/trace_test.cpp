// Recorders of rewrites, and statistics.
#include "quern/ir/rewrite/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "quern/base/env.h"
#include "quern/ir/rewrite/rewrite.h"
#include "test/ir/variables.h"

namespace quern {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

const Rules without_neutral = [] {
  const Pat x = var("x");
  return RuleList{{x + 0, x}, {x * 1, x}};
};

UOp inner(const UOp& x) { return graph_rewrite(x, without_neutral, {.name = "inner"}); }
const Rules with_inner = [] {
  return RuleList{{op(Op::CONTIGUOUS, {var("x")}), inner, "contiguous -> rewritten"}};
};
UOp contiguous_of(const UOp& x) { return UOp::make(Op::CONTIGUOUS, x.dtype(), {x}); }

// ---- recorders

TEST(Recorder, KeepsEveryRewriteInItsOrder) {
  const UOp root = ((kN + 0) * 1) % 3;
  const Recorder recorder;
  graph_rewrite(root, without_neutral, {.name = "first"});
  graph_rewrite(kM, without_neutral, {.name = "second"});
  const RewriteTrace& trace = recorder.trace();
  ASSERT_EQ(trace.passes.size(), 2u);
  const RewritePass& pass = trace.passes[0];
  EXPECT_EQ(pass.name, "first");
  EXPECT_TRUE(pass.root == root && pass.result == kN % 3);
  ASSERT_EQ(pass.steps.size(), 2u);
  EXPECT_TRUE(pass.steps[0].before == kN + 0 && pass.steps[0].after == kN);
  EXPECT_TRUE(pass.steps[1].before == kN * 1 && pass.steps[1].after == kN);
  EXPECT_EQ(trace.rules[pass.steps[0].rule].text, "x + 0 -> x");
  EXPECT_EQ(trace.rules[pass.steps[1].rule].text, "x * 1 -> x");
  EXPECT_THAT(trace.rules[pass.steps[1].rule].location,
              MatchesRegex("test/ir/rewrite/trace_test\\.cpp:[0-9]+"));
  EXPECT_EQ(trace.passes[1].name, "second");
  EXPECT_TRUE(trace.passes[1].steps.empty());
}

TEST(Recorder, ARuleIsNamedOnce) {
  const Recorder recorder;
  for (int i = 0; i < 5; i++) graph_rewrite((kN + 0) % (i + 2), without_neutral);
  EXPECT_EQ(recorder.trace().rules.size(), 1u);
}

TEST(Recorder, PassesInsideOfPassesFollowThemAndAreDeeper) {
  const Recorder recorder;
  graph_rewrite(contiguous_of(contiguous_of(kN + 0) + 0), with_inner,
                {.order = Order::before_sources, .name = "outer"});
  graph_rewrite(kN + 0, without_neutral, {.name = "last"});
  std::string seen;
  for (const RewritePass& pass : recorder.trace().passes)
    seen += fmt::format("{} {}, ", pass.name, pass.depth);
  EXPECT_EQ(seen, "outer 0, inner 1, inner 1, last 0, ");
}

TEST(Recorder, RecordersNest) {
  const Recorder outer;
  graph_rewrite(kN + 0, without_neutral, {.name = "a"});
  {
    const Recorder nested;
    graph_rewrite(kN + 0, without_neutral, {.name = "b"});
    EXPECT_EQ(nested.trace().passes.size(), 1u);
    EXPECT_EQ(nested.trace().passes[0].name, "b");
  }
  graph_rewrite(kN + 0, without_neutral, {.name = "c"});
  EXPECT_EQ(outer.trace().passes.size(), 3u);
}

TEST(Recorder, MadeInsideOfAPassItSeesWhatFollows) {
  static std::unique_ptr<Recorder> inside;
  const Rules rules{{op(Op::CONTIGUOUS, {var("x")}), [](const UOp& x) {
                       inside = std::make_unique<Recorder>();
                       return inner(x);
                     }}};
  graph_rewrite(contiguous_of(kN + 0), rules, {.name = "outer"});
  graph_rewrite(kN * 1, without_neutral, {.name = "later"});
  const RewriteTrace trace = inside->trace();
  inside.reset();
  ASSERT_EQ(trace.passes.size(), 2u);
  EXPECT_EQ(trace.passes[0].name, "inner");
  EXPECT_EQ(trace.passes[0].depth, 0u);
  EXPECT_EQ(trace.passes[1].depth, 0u);
}

TEST(Recorder, MayEndBeforeThePassThatItSees) {
  static std::unique_ptr<Recorder> recorder;
  recorder = std::make_unique<Recorder>();
  const Rules rules{{op(Op::CONTIGUOUS, {var("x")}), [](const UOp& x) {
                       recorder.reset();
                       return x;
                     }}};
  EXPECT_TRUE(graph_rewrite(contiguous_of(kN), rules) == kN);
}

TEST(Recorder, SeesItsOwnThreadOnly) {
  const Recorder recorder;
  std::thread([] { graph_rewrite(kN + 0, without_neutral); }).join();
  EXPECT_TRUE(recorder.trace().passes.empty());
}

TEST(Recorder, APassThatFailsHasStepsAndNoResult) {
  const Pat x = var("x"), y = var("y");
  const Rules rules{{max(x, y), min(x, y)}, {min(x, y), max(x, y)}};
  const Recorder recorder;
  EXPECT_THROW(graph_rewrite(max(kN, kM), rules, {.name = "endless"}), RewriteError);
  graph_rewrite(kN + 0, without_neutral, {.name = "next"});
  ASSERT_EQ(recorder.trace().passes.size(), 2u);
  EXPECT_FALSE(recorder.trace().passes[0].result);
  EXPECT_EQ(recorder.trace().passes[0].steps.size(), 2u);
  EXPECT_EQ(recorder.trace().passes[1].depth, 0u);
  const std::string bytes = encode_trace(recorder.trace());
  EXPECT_EQ(encode_trace(decode_trace(bytes)), bytes);
}

TEST(Recorder, NobodyListensAfterwards) {
  const bool before_it = observing();
  {
    const Recorder recorder;
    EXPECT_TRUE(observing());
  }
  EXPECT_EQ(observing(), before_it);
}

// ---- statistics

// Counts from here to the end of the scope.
struct Counting {
  explicit Counting(int level) : level_("TRACK_MATCH_STATS", level) { reset_match_statistics(); }
  env::Override level_;
};
struct Stop {  // declared before a Counting: runs after the override has ended
  Stop() = default;
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;
  ~Stop() { reset_match_statistics(); }
};

// The line that has the text.
std::string line_with(const std::string& table, std::string_view text) {
  const size_t at = table.find(text);
  if (at == std::string::npos) return "";
  const size_t begin = table.rfind('\n', at) + 1;
  return table.substr(begin, table.find('\n', at) - begin);
}

TEST(MatchStatistics, ByPass) {
  const Stop stop;
  const Counting counting(1);
  for (int i = 0; i < 3; i++) graph_rewrite((kN + 0) % 3, without_neutral, {.name = "small"});
  graph_rewrite(contiguous_of((kN + 0) * 1), with_inner, {.name = "outer"});
  const std::string table = match_statistics();
  // n, 0, n + 0, 3 and the remainder become n, 3 and the remainder.
  EXPECT_THAT(line_with(table, "small"), MatchesRegex("small  +3  +[0-9.]+ ms  +15  +9  +3"));
  EXPECT_THAT(line_with(table, "outer"), MatchesRegex("outer  +1  +[0-9.]+ ms  +6  +1  +1"));
  EXPECT_THAT(line_with(table, "inner"), MatchesRegex("inner  +1  +[0-9.]+ ms  +5  +1  +2"));
  EXPECT_THAT(line_with(table, "total"), MatchesRegex("total  +5  +[0-9.]+ ms  +26  +11  +6"));
  EXPECT_THAT(table, Not(HasSubstr("attempts"))) << "rules are counted at level 2";
}

TEST(MatchStatistics, ByRule) {
  const Stop stop;
  const Counting counting(2);
  const Rules copy = without_neutral + Rules{{var("x") % var("x"), 0}};
  graph_rewrite((kN + 0) % (kM + 3), copy);
  graph_rewrite(kN + 0, without_neutral);
  const std::string table = match_statistics();
  const std::string location = without_neutral.list()[0].location();
  EXPECT_THAT(line_with(table, "x + 0 -> x"),
              MatchesRegex(" +2 / +2 -- +[0-9.]+ / +[0-9.]+ ms -- " + location + " +x \\+ 0 -> x"))
      << "copies of a rule are one rule, and m + 3 is no attempt: another number";
  EXPECT_THAT(line_with(table, "x % x -> 0"), MatchesRegex(" +0 / +1 -- .*"));
  EXPECT_EQ(line_with(table, "x * 1 -> x"), "") << "never attempted";
  EXPECT_THAT(table.substr(table.rfind("\n", table.size() - 2) + 1),
              MatchesRegex(" +2 / +3 -- .* ms -- total\n"));
}

TEST(MatchStatistics, TimeIsOfThePassItself) {
  const Stop stop;
  const Counting counting(2);
  static auto slowly = [](const UOp& x) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return x;
  };
  static const Rules slow{{op(Op::NEG, {var("x")}), [](const UOp& x) { return slowly(x); }, "slow"}};
  const Rules outer{{op(Op::CONTIGUOUS, {var("x")}),
                     [](const UOp& x) { return graph_rewrite(x, slow, {.name = "nested"}); },
                     "calls the slow one"}};
  graph_rewrite(contiguous_of(UOp::alu(Op::NEG, {kN})), outer, {.name = "caller"});
  const std::string table = match_statistics();
  auto number_before = [&](std::string_view name, std::string_view unit) {
    const std::string line = line_with(table, name);
    const size_t end = line.find(unit);
    return std::stod(line.substr(line.find_last_of(" ", end - 2) + 1));
  };
  EXPECT_GE(number_before("nested", " ms"), 30.0);
  EXPECT_GE(number_before("slow", " ms"), 30.0);
  EXPECT_LT(number_before("caller", " ms"), number_before("nested", " ms")) << table;
  EXPECT_LT(number_before("calls the slow one", " ms"), number_before("slow", " ms")) << table;
  EXPECT_LT(table.find("nested"), table.find("caller")) << "the slowest first\n" << table;
}

TEST(MatchStatistics, NothingIsCountedUnlessAskedFor) {
  const Stop stop;
  {
    const Counting counting(0);
    graph_rewrite(kN + 0, without_neutral, {.name = "silent"});
    EXPECT_THAT(match_statistics(), Not(HasSubstr("silent")));
  }
}

// ---- the environment, in a process of its own

class TraceDeathTest : public testing::Test {
 protected:
  TraceDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }  // it starts the program anew
};

TEST_F(TraceDeathTest, StatisticsArePrintedAtTheEnd) {
  auto program = [] {
    ::setenv("TRACK_MATCH_STATS", "2", 1);  // NOLINT(concurrency-mt-unsafe)
    graph_rewrite(kN + 0, without_neutral, {.name = "only pass"});
    std::exit(0);  // NOLINT(concurrency-mt-unsafe)
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "only pass .*x \\+ 0 -> x");
}

TEST_F(TraceDeathTest, TheWholeProcessIsWrittenAtTheEnd) {
  const std::string path = (std::filesystem::temp_directory_path() / "quern_trace_of_a_process").string();
  std::filesystem::remove(path);
  auto program = [&] {
    ::setenv("REWRITE_TRACE", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    graph_rewrite(contiguous_of(kN + 0), with_inner, {.name = "main"});
    std::thread([] { graph_rewrite(kM * 1, without_neutral, {.name = "other"}); }).join();
    std::exit(0);  // NOLINT(concurrency-mt-unsafe)
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
  const RewriteTrace trace = read_trace(path);
  std::filesystem::remove(path);
  std::string seen;
  for (const RewritePass& p : trace.passes) seen += fmt::format("{} {} {}, ", p.name, p.depth, p.thread);
  EXPECT_EQ(seen, "main 0 0, inner 1 0, other 0 1, ");
  EXPECT_TRUE(trace.passes[0].result == kN);
}

TEST_F(TraceDeathTest, APathThatCannotBeWrittenIsReported) {
  auto program = [] {
    ::setenv("REWRITE_TRACE", "/no/such/folder/trace", 1);  // NOLINT(concurrency-mt-unsafe)
    graph_rewrite(kN + 0, without_neutral);
    std::exit(0);  // NOLINT(concurrency-mt-unsafe)
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0),
              "REWRITE_TRACE: /no/such/folder/trace: cannot be written: No such file or directory");
}

}  // namespace
}  // namespace quern
