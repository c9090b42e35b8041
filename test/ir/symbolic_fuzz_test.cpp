// Random expressions have the same values before and after simplification, bounds hold, and simplifying what is
// simple changes nothing.
#include <gtest/gtest.h>

#include <ctime>

#include "quern/ir/print.h"
#include "quern/ir/symbolic.h"
#include "test/fuzz.h"
#include "test/ir/evaluate.h"
#include "test/ir/random_expression.h"

namespace quern {
namespace {

constexpr size_t kPoints = 40;

struct Counts {
  uint64_t points = 0, overflows = 0, grown = 0, nodes_before = 0, nodes_after = 0;
  double seconds = 0, slowest = 0;
  uint64_t slowest_case = 0;
};

// Of this thread alone: other work on the machine does not count.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Evaluates both at many points. What is wrong, or nothing.
std::string disagreement(const UOp& before, const UOp& after, std::mt19937_64 random, Counts& counts,
                         const UOp& condition = {}) {
  UOps roots{before, after};
  if (condition) roots.push_back(condition);
  Evaluator both(roots);
  UOps leaves = condition ? Evaluator(UOps{before, condition}).leaves() : Evaluator(before).leaves();
  if (both.leaves().size() != leaves.size()) return "the result has leaves of its own";
  for (const std::vector<Const>& point : random_points(random, both.leaves(), kPoints)) {
    if (!both.run(point)) continue;
    if (condition) {
      const Evaluated& c = both.result(2);
      if (c.overflow || c.value.is_invalid() || !c.value.as_bool()) continue;
    }
    counts.points++;
    if (both.result(0).overflow) {
      counts.overflows++;
      continue;
    }
    if (std::string broken = both.broken_bounds(); !broken.empty()) return broken;
    const Const was = both.result(0).value, is = both.result(1).value;
    if (!agrees(was, is))
      return fmt::format("at {} it was {} and is now {}", both.point(), to_string(was, before.dtype()),
                         to_string(is, before.dtype()));
  }
  return {};
}

std::string problem_of(const UOp& before, std::mt19937_64 random, Counts& counts) {
  try {
    const double start = thread_seconds();
    const UOp after = before.simplify();
    const double seconds = thread_seconds() - start;
    counts.seconds += seconds;
    counts.slowest = std::max(counts.slowest, seconds);
    const size_t size = before.toposort().size(), size_after = after.toposort().size();
    counts.nodes_before += size;
    counts.nodes_after += size_after;
    if (size_after > size * 4 + 16) counts.grown++;
    if (std::string problem = disagreement(before, after, random, counts); !problem.empty()) return problem;
    if (const UOp again = after.simplify(); !same(again, after))
      return fmt::format("simplified again it becomes\n{}", again.text());
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

ExpressionKind random_kind(std::mt19937_64& random) {
  constexpr DType fixed[] = {dtypes::int8, dtypes::uint8, dtypes::int32, dtypes::uint64};
  return {.condition = one_in(random, 5),
          .gates = one_in(random, 2),
          .dtype = one_in(random, 4) ? fixed[random() % 4] : dtypes::index};
}

void report(const char* what, const FuzzPlan& plan, const Counts& c) {
  const double cases = static_cast<double>(plan.cases);
  fmt::print("{}: seed {}, {} cases, {} points ({} with overflow), {:.1f} nodes on average become {:.1f}, "
             "{:.1f} us on average, {:.1f} ms at most (case {})\n",
             what, plan.seed, plan.cases, c.points, c.overflows, static_cast<double>(c.nodes_before) / cases,
             static_cast<double>(c.nodes_after) / cases, c.seconds * 1e6 / cases, c.slowest * 1e3, c.slowest_case);
}

TEST(SymbolicFuzz, SimplifiedExpressionsAgree) {
  const FuzzPlan plan = fuzz_plan(50'000, 1'000'000);
  Counts counts;
  int failures = 0;
  for (uint64_t number = plan.first; number < plan.first + plan.cases && failures < 5; number++) {
    std::mt19937_64 random = plan.generator(number);
    const ExpressionKind kind = random_kind(random);
    const UOp expression = random_expression(random, static_cast<int>(pick(random, 1, 8)), kind);
    const double slowest = counts.slowest;
    const std::string problem = problem_of(expression, random, counts);
    if (counts.slowest > slowest) counts.slowest_case = number;
    if (problem.empty()) continue;
    failures++;
    Counts ignored;
    auto fails = [&](const UOp& u) { return !problem_of(u, random, ignored).empty(); };
    const UOp small = shrink(expression, fails);
    ADD_FAILURE() << "case " << number << ", " << plan.rerun(number) << "\n"
                  << small.text() << "\nsimplifies to\n"
                  << [&] {
                       try {
                         return small.simplify().text();
                       } catch (const Error& e) {
                         return std::string("nothing");
                       }
                     }()
                  << "\n"
                  << problem_of(small, random, ignored);
  }
  report("simplify", plan, counts);
  EXPECT_LE(counts.overflows * 20, counts.points) << "too many points are wasted on overflow";
  EXPECT_EQ(counts.grown, 0u) << "results far larger than what they came from";
}

}  // namespace
}  // namespace quern
