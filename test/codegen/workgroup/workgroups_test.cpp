// Workgroups and their threads: programs that compute the same in line on INTERP, with any opts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/codegen/linearize/linearize.h"
#include "quern/codegen/lower.h"
#include "quern/codegen/workgroup/workgroups.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/interp/program.h"
#include "test/codegen/kernels.h"
#include "test/fuzz.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

DeviceSpec gpu() {
  DeviceSpec spec;
  spec.name = "GPU";
  spec.parallel.cores = 4;
  spec.parallel.threads_per_core = 256;
  spec.parallel.workgroup = 64;
  spec.parallel.warp = 32;
  spec.memory.group_bytes = 16384;
  spec.memory.registers = 64;
  spec.has_fp8 = spec.has_bfloat16 = spec.has_float16 = false;
  spec.has_fma = true;
  return spec;
}

LinearProgram lowered(const UOp& kernel, const Opts& opts = {}, OptChoice choice = OptChoice::given) {
  check(lower_to_program(with_opts(kernel, opts), gpu(), choice), Level::program, "lower");
  LinearProgram program = lower(with_opts(kernel, opts), gpu(), choice);
  check(program);
  return program;
}

std::vector<std::string> specials(const LinearProgram& program) {
  std::vector<std::string> found;
  for (const UOp& u : program.list)
    if (u.op() == Op::SPECIAL)
      found.push_back(fmt::format("{} {}", u.arg().text(), to_string(u.src(0).int_value())));
  std::ranges::sort(found);
  return found;
}
UOp kernel_named(const std::string& name) {
  for (const KernelCase& c : kernel_cases())
    if (c.name == name) return parse(c.text);
  throw Error("there is no kernel " + name);
}

class WorkgroupCases : public testing::TestWithParam<KernelCase> {};

TEST_P(WorkgroupCases, WithoutOptsTheSame) {
  const UOp kernel = parse(GetParam().text);
  const LinearProgram program = lowered(kernel);
  EXPECT_EQ(in_line(kernel, program), by_interp(kernel)) << program.text();
  if (program.in_order) EXPECT_EQ(in_line(kernel, program.in_order()), by_interp(kernel));
}

TEST_P(WorkgroupCases, AnyOptsComputeTheSame) {
  constexpr OptKind kinds[] = {OptKind::LOCAL,  OptKind::LOCAL,  OptKind::GROUP, OptKind::GROUPTOP,
                               OptKind::UPCAST, OptKind::UNROLL, OptKind::SWAP,  OptKind::NOLOCALS};
  const UOp kernel = parse(GetParam().text);
  const Memory expected = by_interp(kernel);
  const FuzzPlan plan = fuzz_plan(60, 3000);
  std::mt19937 random(static_cast<uint32_t>(plan.seed));
  for (uint64_t i = 0; i < plan.cases; i++) {
    const Opts opts = random_opts_for(kernel, kinds, gpu(), random);
    const LinearProgram program = lowered(kernel, opts);
    ASSERT_EQ(in_line(kernel, program), expected) << to_text(opts) << "\n" << program.text();
  }
}

TEST_P(WorkgroupCases, ChosenOptsComputeTheSame) {
  const UOp kernel = parse(GetParam().text);
  const LinearProgram program = lowered(kernel, {}, OptChoice::best);
  EXPECT_EQ(in_line(kernel, program), by_interp(kernel))
      << fmt::format("{}\n", fmt::join(program.opts, " ")) << program.text();
}

INSTANTIATE_TEST_SUITE_P(Kernels, WorkgroupCases, testing::ValuesIn(kernel_cases()),
                         [](const auto& given) { return given.param.name; });

TEST(Workgroups, OutputLoopsAreGroupsAndLocalOnesThreads) {
  EXPECT_THAT(specials(lowered(kernel_named("matmul"))), ElementsAre("gidx0 32", "gidx1 16"));
  EXPECT_THAT(specials(lowered(kernel_named("matmul"), parse_opts("LOCAL(1, 16) LOCAL(0, 4)"))),
              ElementsAre("gidx0 2", "gidx1 4", "lidx0 16", "lidx1 4"));
  // more loops than there are dimensions
  EXPECT_THAT(specials(lowered(kernel_named("four_loops"))), ElementsAre("gidx0 360"));
}

TEST(Workgroups, AReduceIsNotComputedAgainInEveryGroup) {
  EXPECT_THAT(specials(lowered(kernel_named("softmax_like"))), ElementsAre("gidx0 4"));
  EXPECT_THAT(specials(lowered(kernel_named("times_its_sum"))), ElementsAre());
}

TEST(Workgroups, SiblingsShareThreads) {
  const LinearProgram p = lowered(kernel_named("softmax_like"), parse_opts("GROUP(2, 64) LOCAL(1, 64)"));
  EXPECT_THAT(specials(p), ElementsAre("gidx0 4", "lidx0 64"));
  EXPECT_EQ(count(p, Op::IF), 0);
  // 64 is 16 * 4: two steps for each of the two reduces
  EXPECT_EQ(count(p, Op::BARRIER), 4);
  EXPECT_EQ(count(p, Op::DEFINE_LOCAL), 4);
}

TEST(Workgroups, OneThreadStoresWhatAllHave) {
  const LinearProgram p = lowered(kernel_named("sum_of_all"), parse_opts("GROUP(0, 16)"));
  EXPECT_THAT(specials(p), ElementsAre("lidx0 16"));
  EXPECT_EQ(count(p, Op::IF), 1);
}

TEST(Workgroups, LocalMemoryIsFilledByAllThreads) {
  EXPECT_THAT(specials(lowered(kernel_named("staged"))), ElementsAre("gidx0 16", "lidx0 64"));
  // 300 threads of a workgroup that has 64 at most: 60 threads, five steps
  EXPECT_THAT(specials(lowered(kernel_named("threads_as_written"))), ElementsAre("gidx0 2", "lidx0 60"));
}

TEST(Workgroups, LocalMemoryInALoopHasABarrierOnEachSide) {
  const LinearProgram p = lowered(kernel_named("staged_in_a_reduce"));
  EXPECT_EQ(count(p, Op::BARRIER), 2) << p.text();
}

TEST(Workgroups, WhatMustBeInOrderIsDoneByOneThread) {
  for (const char* name : {"scatter", "each_from_the_one_before", "into_one_place"}) {
    EXPECT_THAT(specials(lowered(kernel_named(name))), ElementsAre()) << name;
  }
}

std::string refusal_by_gpu(const std::string& kernel, const char* opts) {
  try {
    (void)lower_to_program(with_opts(kernel_named(kernel), parse_opts(opts)), gpu());
  } catch (const Error& e) {
    return e.what();
  }
  return "it applies";
}

TEST(Workgroups, WhyAnOptDoesNotApply) {
  EXPECT_THAT(refusal_by_gpu("matmul", "LOCAL(2, 4)"), HasSubstr("loop 2 is that of a reduce: use GROUP"));
  EXPECT_THAT(refusal_by_gpu("matmul", "GROUP(0, 4)"), HasSubstr("loop 0 is that of an output: use LOCAL"));
  EXPECT_THAT(refusal_by_gpu("matmul", "LOCAL(0, 5)"), HasSubstr("5 does not divide the 16 steps of loop 0"));
  EXPECT_THAT(refusal_by_gpu("matmul", "LOCAL(0, 16) LOCAL(1, 32)"),
              HasSubstr("512 threads, the device has at most 64"));
  EXPECT_THAT(refusal_by_gpu("matmul", "NOLOCALS LOCAL(0, 4)"), HasSubstr("NOLOCALS came before it"));
  EXPECT_THAT(refusal_by_gpu("matmul", "LOCAL(0, 4) NOLOCALS"), HasSubstr("threads already"));
  EXPECT_THAT(refusal_by_gpu("matmul", "THREAD(0, 4)"), HasSubstr("use LOCAL"));
  EXPECT_THAT(refusal_by_gpu("staged", "LOCAL(0, 4)"), HasSubstr("its kernel has"));
}

TEST(Workgroups, SymbolicSizesAreGroups) {
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[64], r0[$n[0..8]] * 8 + r1[8]), CAST(CAST(r0 + "
      "$n):int32):float32), r0, r1))");
  const LinearProgram program = lower(kernel, gpu());
  for (const int64_t n : {0, 3, 8}) {
    Memory memory(1, Bytes(256)), expected(1, Bytes(256));
    interp::InterpProgram(kernel).run(arguments_of(expected), {{"n", n}});
    interp::InterpProgram(program).run(arguments_of(memory), {{"n", n}});
    EXPECT_EQ(memory, expected) << n;
  }
}

TEST(Workgroups, SymbolicSizesBesideBarriers) {
  for (const int64_t most : {6, 40, 200}) {  // fewer than threads, and more
    const UOp kernel = parse(fmt::format(R"(
      %l = DEFINE_LOCAL(; 0):float32*[24]@LOCAL
      %f = BARRIER(END(STORE(INDEX(%l, r1[24]), INDEX(PARAM(; 1):float32*[24], r1):float32 * 2.0), r1))
      %x = INDEX(AFTER(%l, %f), r0[$n[1..{0}]] % 24):float32 + INDEX(PARAM(; 2):float32*[{0}], r0):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[{0}], r0), %x), r0)))",
                                         most));
    const LinearProgram program = lower(kernel, gpu());
    for (const int64_t n : {int64_t{1}, most / 2, most}) {
      Memory memory = memory_for(kernel), expected = memory_for(kernel);
      interp::InterpProgram(kernel).run(arguments_of(expected), {{"n", n}});
      interp::InterpProgram(program).run(arguments_of(memory), {{"n", n}});
      EXPECT_EQ(memory, expected) << n << " of " << most << "\n" << program.text();
    }
  }
}

TEST(Workgroups, BarriersInLoopsThatDifferAreRefused) {
  const UOp kernel = parse(R"(
    %l = DEFINE_LOCAL(; 0):float32*[8]@LOCAL
    %f = BARRIER(STORE(INDEX(%l, r0[8, LOCAL]), CAST(CAST(r1[r0 + 1]):int32):float32))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0), LOAD(INDEX(AFTER(%l, %f), 7 - r0))), r1, r0)))");
  EXPECT_THROW((void)lower(kernel, gpu()), Error);
}

}  // namespace
}  // namespace quern
