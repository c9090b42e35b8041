// Random expressions have the same values before and after simplification, bounds hold, and simplifying what
// is simple changes nothing.
#include <gtest/gtest.h>

#include <ctime>

#include "quern/ir/symbolic/symbolic.h"
#include "quern/ir/text/print.h"
#include "test/fuzz.h"
#include "test/ir/evaluate.h"
#include "test/ir/random_expression.h"

namespace quern {
namespace {

constexpr size_t kPoints = 40;

struct Counts {
  uint64_t points = 0, overflows = 0, nodes_before = 0, nodes_after = 0;
  double seconds = 0, slowest = 0;
  uint64_t slowest_case = 0;
};

// Of this thread alone: other work on the machine does not count.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Evaluates both at many points, those where the condition holds if there is one. What is wrong, or nothing.
std::string disagreement(const UOp& before, const UOp& after, std::mt19937_64 random, Counts& counts,
                         const UOp& condition = UOp::boolean(true)) {
  UOps roots{before, condition};
  const size_t leaves = Evaluator(roots).leaves().size();
  roots.push_back(after);
  for (const UOp& u : before.toposort())  // the conditions inside
    if (u.dtype().is_bool()) roots.push_back(u);
  Evaluator both(roots);
  const Evaluated &was = both.result(0), &holds = both.result(1), &is = both.result(2);
  if (both.leaves().size() != leaves) return "the result has leaves of its own";
  for (const std::vector<Const>& point : random_points(random, both.leaves(), kPoints)) {
    if (!both.run(point) || holds.overflow || !(holds.value == Const::of_bool(true))) continue;
    counts.points++;
    if (was.overflow) {
      counts.overflows++;
      continue;
    }
    if (std::string broken = both.broken_bounds(); !broken.empty()) return broken;
    // A gate stays: what is invalid is so afterwards, unless it is a condition that is invalid.
    bool same_gate = !was.value.is_invalid() || is.value.is_invalid();
    for (size_t i = 3; i < roots.size(); i++) same_gate |= both.result(i).value.is_invalid();
    if (!agrees(was.value, is.value) || !same_gate)
      return fmt::format("at {} it was {} and is now {}", both.point(), to_string(was.value, before.dtype()),
                         to_string(is.value, before.dtype()));
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
    if (size_after > size * 4 + 16) return fmt::format("{} nodes become {}", size, size_after);
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
  fmt::print(
      "{}: seed {}, {} cases, {} points ({} with overflow), {:.1f} nodes on average become {:.1f}, "
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
                  <<
        [&] {
          try {
            return small.simplify().text();
          } catch (const Error& e) {
            return std::string("nothing");
          }
        }() << "\n"
                  << problem_of(small, random, ignored);
  }
  report("simplify", plan, counts);
  if (plan.cases > 1) {
    EXPECT_LE(counts.overflows * 20, counts.points) << "too many points are wasted on overflow";
  }
}

TEST(SymbolicFuzz, SimplifiedUnderAConditionTheyAgreeWhereItHolds) {
  const FuzzPlan plan = fuzz_plan(10'000, 200'000);
  Counts counts;
  int failures = 0;
  // The condition and the expression in one node, so that they are shrunk together.
  auto problem_under = [](const UOp& both, std::mt19937_64 random, Counts& c) -> std::string {
    if (both.op() != Op::WHERE || !both.src(2).is_const()) return {};
    try {
      const UOp condition = both.src(0), before = both.src(1);
      const double start = thread_seconds();
      const UOp after = simplify_under(before.simplify(), condition.simplify());
      c.seconds += thread_seconds() - start;
      return disagreement(before, after, random, c, condition);
    } catch (const Error& e) {
      return e.what();
    }
  };
  for (uint64_t number = plan.first; number < plan.first + plan.cases && failures < 5; number++) {
    std::mt19937_64 random = plan.generator(number);
    const ExpressionKind kind{.condition = false, .gates = false, .dtype = random_kind(random).dtype};
    const auto [condition, value] = random_gated(random, static_cast<int>(pick(random, 1, 6)), kind);
    const UOp both = where(condition, value, value.const_like(0));
    if (problem_under(both, random, counts).empty()) continue;
    failures++;
    Counts ignored;
    const UOp small = shrink(both, [&](const UOp& u) { return !problem_under(u, random, ignored).empty(); });
    ADD_FAILURE() << "case " << number << ", " << plan.rerun(number) << "\n"
                  << small.src(1) << "\nunder\n"
                  << small.src(0) << "\n"
                  << problem_under(small, random, ignored);
  }
  fmt::print("simplify_under: seed {}, {} cases, {} points where the condition holds, {:.1f} us on average\n",
             plan.seed, plan.cases, counts.points, counts.seconds * 1e6 / static_cast<double>(plan.cases));
  EXPECT_GE(counts.points, plan.cases) << "conditions hold too seldom";
}

}  // namespace
}  // namespace quern
