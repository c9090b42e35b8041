// What the cost model sees of a kernel, and in which order it puts lists of opts. No clock: what is checked
// is which of two lists is held to be quicker where that is certain.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "quern/codegen/choose/by_cost.h"
#include "quern/codegen/choose/choose.h"
#include "quern/codegen/choose/heuristic.h"
#include "quern/codegen/cost/estimate.h"
#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"

namespace quern::cost {
namespace {

DeviceSpec machine(int64_t cores = 1) {
  DeviceSpec spec;
  spec.parallel.cores = cores;
  spec.parallel.vector_bytes = 32;
  spec.memory.registers = 16;
  spec.memory.l1_bytes = 32 << 10, spec.memory.l2_bytes = 512 << 10, spec.memory.l3_bytes = 32 << 20;
  spec.has_fma = true;
  return spec;
}

constexpr const char* kProduct =
    R"(%a = INDEX(PARAM(; 1):float32*[{0}], r0[{0}] * {1} + r2[{1}, REDUCE]):float32
  %b = INDEX(PARAM(; 2):float32*[{0}], r2 * {2} + r1[{2}]):float32
  SINK(END(STORE(INDEX(PARAM(; 0):float32*[{0}], r0 * {2} + r1), REDUCE(%a * %b, r2; {{op: ADD}})), r0, r1)))";

UOp product(int64_t m, int64_t k, int64_t n) { return parse(fmt::format(fmt::runtime(kProduct), m, k, n)); }

UOp loops(const UOp& kernel, const DeviceSpec& spec = machine()) {
  const std::optional<Optimisable> start = before_opts(kernel, spec);
  EXPECT_TRUE(start);
  return start->program;
}

int64_t price(const UOp& program, const std::string& opts, const DeviceSpec& spec = machine()) {
  const std::optional<Summary> kernel = summary_of(program);
  EXPECT_TRUE(kernel);
  const std::optional<LoopPlan> plan = plan_of(*kernel, parse_opts(opts));
  EXPECT_TRUE(plan) << opts;
  return picoseconds(work_of(*kernel, *plan, spec), spec);
}

TEST(Summary, OfAProduct) {
  const std::optional<Summary> kernel = summary_of(loops(product(30, 40, 50)));
  ASSERT_TRUE(kernel);
  ASSERT_EQ(kernel->loops.size(), 3U);
  EXPECT_EQ(kernel->loops[1].steps, 50);
  EXPECT_TRUE(kernel->loops[2].is_reduce);
  EXPECT_EQ(kernel->around_all, LoopSet{3});
  ASSERT_EQ(kernel->reductions.size(), 1U);
  EXPECT_TRUE(kernel->reductions[0].is_fused);
  EXPECT_EQ(kernel->reductions[0].closed, bit(2));
  EXPECT_EQ(kernel->reductions[0].result, LoopSet{3});
  EXPECT_TRUE(kernel->operations.empty()) << "the product is part of the sum";
  ASSERT_EQ(kernel->accesses.size(), 3U);
  for (const Access& a : kernel->accesses) {
    EXPECT_EQ(a.is_store, a.argument == 0);
    if (a.argument == 1) EXPECT_EQ(a.strides, (std::vector<std::optional<wide>>{40, 0, 1}));
    if (a.argument == 2) EXPECT_EQ(a.strides, (std::vector<std::optional<wide>>{0, 1, 50}));
  }
}

TEST(Summary, SumsSideBySideAreSplitTogether) {
  const std::optional<Summary> kernel = summary_of(loops(parse(
      "%x = INDEX(PARAM(; 1):float32*[6400], r0[100] * 64 + r1[64, REDUCE]):float32\n"
      "%y = INDEX(PARAM(; 2):float32*[6400], r0 * 64 + r2[64, REDUCE]):float32\n"
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[100], r0), REDUCE(%x, r1; {op: ADD}) * REDUCE(%y, r2; {op: "
      "MAX})), r0))")));
  ASSERT_TRUE(kernel);
  ASSERT_EQ(kernel->loops.size(), 3U);
  EXPECT_EQ(kernel->loops[1].sibling, 1U);
  EXPECT_EQ(kernel->loops[2].sibling, 1U);
  const std::optional<LoopPlan> plan = plan_of(*kernel, parse_opts("UNROLL(1, 8)"));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->splits[2].copies, 8);
  EXPECT_EQ(to_text(opts_of(*kernel, *plan)), "UNROLL(1, 8)");
}

TEST(Summary, AnIndexThatIsReadIsRead) {
  const std::optional<Summary> kernel = summary_of(
      loops(parse("%i = CAST(INDEX(PARAM(; 2):int32*[64], r0[64]):int32):index\n"
                  "SINK(END(STORE(INDEX(PARAM(; 0):float32*[64], r0), INDEX(PARAM(; 1):float32*[4096], %i"
                  "):float32), r0))")));
  ASSERT_TRUE(kernel);
  EXPECT_EQ(kernel->accesses.size(), 3U);
  for (const Access& a : kernel->accesses)
    if (a.argument == 1) EXPECT_FALSE(a.strides[0]);
}

TEST(LoopPlan, IsWhatTheListSays) {
  const std::optional<Summary> kernel = summary_of(loops(product(64, 64, 64)));
  ASSERT_TRUE(kernel);
  for (const char* text : {"UPCAST(1, 8) UPCAST(1, 2)", "PADTO(0, 6) UPCAST(0, 6) UNROLL(2, 4)",
                           "THREAD(0, 2) SWAP(0, 1) UPCAST(1, 8)", "BLOCK(0, 16) UPCAST(1, 8)"}) {
    const std::optional<LoopPlan> plan = plan_of(*kernel, parse_opts(text));
    ASSERT_TRUE(plan) << text;
    EXPECT_EQ(to_text(opts_of(*kernel, *plan)), text);
  }
  EXPECT_FALSE(plan_of(*kernel, parse_opts("LOCAL(0, 4)")));
  EXPECT_FALSE(plan_of(*kernel, parse_opts("UPCAST(7, 4)")));
}

TEST(Estimate, LanesAlongMemoryAreQuick) {
  const UOp program = loops(
      parse("SINK(END(STORE(INDEX(PARAM(; 0):float32*[1048576], r0[1024] * 1024 + r1[1024]), INDEX(PARAM(; "
            "1):float32*[1048576], r1 * 1024 + r0):float32 + 1.0), r0, r1))"));
  EXPECT_LT(price(program, "UPCAST(1, 8)"), price(program, ""));
  EXPECT_LT(price(program, "UPCAST(1, 8) UPCAST(0, 8)"), price(program, "UPCAST(1, 8)")) << "squares";
}

TEST(Estimate, ATileReadsLess) {
  const UOp program = loops(product(512, 512, 512));
  const int64_t lanes = price(program, "UPCAST(1, 8)"), tile = price(program, "UPCAST(1, 8) UPCAST(0, 6)"),
                large = price(program, "UPCAST(1, 8) UPCAST(0, 32)");
  EXPECT_LT(tile * 2, lanes);
  EXPECT_LT(tile, large) << "registers are missing";
}

TEST(Estimate, ThreadsPayForLargeWorkOnly) {
  const UOp large = loops(product(256, 256, 256), machine(2)), small = loops(product(8, 8, 8), machine(2));
  EXPECT_LT(price(large, "THREAD(0, 2) UPCAST(1, 8)", machine(2)), price(large, "UPCAST(1, 8)", machine(2)));
  EXPECT_GT(price(small, "THREAD(0, 2) UPCAST(1, 8)", machine(2)), price(small, "UPCAST(1, 8)", machine(2)));
}

TEST(Estimate, WalkingDownColumnsIsSlow) {
  const UOp program = loops(
      parse("SINK(END(STORE(INDEX(PARAM(; 0):float32*[16777216], r0[4096] * 4096 + r1[4096]), INDEX(PARAM(; "
            "1):float32*[16777216], r0 * 4096 + r1):float32 * 2.0), r0, r1))"));
  // one loop of all elements is left: the walk is made of a swap in a kernel whose loops cannot be joined
  const UOp apart = loops(
      parse("SINK(END(STORE(INDEX(PARAM(; 0):float32*[16777216], r0[4096] * 4096 + r1[4096]), INDEX(PARAM(; "
            "1):float32*[16777216], r0 * 4096 + r1):float32 * INDEX(PARAM(; 2):float32*[4096], r1):float32), "
            "r0, r1))"));
  EXPECT_EQ(summary_of(program)->loops.size(), 1U);
  EXPECT_LT(price(apart, "") * 2, price(apart, "SWAP(0, 1)"));
}

TEST(ByCost, ListsApplyAndAreInOrder) {
  for (const auto& [m, k, n] :
       {std::tuple{17, 65536, 17}, {64, 64, 64}, {100, 30, 7}, {1, 1000, 1000}, {1, 1, 1}}) {
    const UOp program = loops(product(m, k, n), machine(2));
    const std::optional<Summary> kernel = summary_of(program);
    ASSERT_TRUE(kernel);
    const std::vector<Priced> priced = priced_opts(*kernel, machine(2));
    ASSERT_FALSE(priced.empty());
    int applied = 0;
    for (size_t i = 0; i < priced.size(); i++) {
      if (i > 0) EXPECT_GE(priced[i].picoseconds, priced[i - 1].picoseconds);
      try {
        (void)apply_opts(program, priced[i].opts, machine(2));
        applied++;
      } catch (const Error& e) {
        EXPECT_NE(i, 0U) << m << "x" << k << "x" << n << ": " << e.what();
      }
    }
    EXPECT_GE(applied * 10, std::ssize(priced) * 9);
    EXPECT_EQ(to_text(choose_opts(program, machine(2))), to_text(choose_opts(program, machine(2))));
  }
}

TEST(ByCost, ChangesOnlyWhatIsFarWorse) {
  int changed = 0;
  for (const auto& [m, k, n] :
       {std::tuple{17, 4096, 17}, {3, 100, 1000}, {1000, 64, 5}, {7, 7, 5000}, {512, 512, 512}}) {
    const UOp program = loops(product(m, k, n), machine(2));
    const std::string rules = to_text(heuristic_opts(program, machine(2))),
                      chosen = to_text(choose_opts(program, machine(2)));
    if (rules == chosen) continue;
    changed++;
    EXPECT_LT(price(program, chosen, machine(2)) * 5, price(program, rules, machine(2)) * 4);
  }
  EXPECT_GT(changed, 0);
  EXPECT_LT(changed, 5);
}

}  // namespace
}  // namespace quern::cost
