// The steps of a search: kernels compute the same wherever they lead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/codegen/choose/actions.h"
#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/interp/program.h"
#include "test/codegen/kernels.h"
#include "test/fuzz.h"

namespace quern {
namespace {

DeviceSpec processor() {
  DeviceSpec spec;
  spec.name = "processor";
  spec.parallel.cores = 4;
  spec.parallel.vector_bytes = 32;
  spec.has_fp8 = spec.has_bfloat16 = spec.has_float16 = false;
  spec.has_fma = spec.adds_addresses_in_64_bits = true;
  return spec;
}
DeviceSpec small_gpu() {
  DeviceSpec spec = processor();
  spec.name = "GPU";
  spec.parallel.threads_per_core = spec.parallel.workgroup = 64;
  spec.parallel.warp = 32;
  spec.memory.group_bytes = 16384;
  spec.memory.registers = 64;
  return spec;
}

// A few steps that apply, at random, from what the heuristic chose or from no opts.
Opts some_steps(const Optimisable& kernel, std::mt19937_64& random) {
  Opts opts = random() % 2 == 0 ? kernel.chosen : Opts();
  for (uint64_t wanted = 1 + random() % 3; wanted > 0; wanted--) {
    const std::vector<Opts> steps = steps_from(opts, kernel.program, kernel.spec);
    for (int tries = 0; tries < 20 && !steps.empty(); tries++) {
      const Opts& next = steps[random() % steps.size()];
      try {
        (void)apply_opts(kernel.program, next, kernel.spec);
        opts = next;
        break;
      } catch (const InternalError&) {
        throw;
      } catch (const Error&) {
        continue;
      }
    }
  }
  return opts;
}

class Steps : public testing::TestWithParam<KernelCase> {
 protected:
  static void compare(const DeviceSpec& spec) {
    const UOp kernel = parse(GetParam().text);
    const std::optional<Optimisable> start = before_opts(kernel, spec);
    if (!start) return;
    const Memory expected = by_interp(kernel);
    const FuzzPlan plan = fuzz_plan(30, 2000);
    for (uint64_t i = plan.first; i < plan.first + plan.cases; i++) {
      std::mt19937_64 random = plan.generator(i);
      const Opts opts = some_steps(*start, random);
      const LinearProgram program = lower(with_opts(kernel, opts), spec, OptChoice::searched);
      if (program.list.size() > 3000) continue;  // a search drops them, too
      Memory memory = memory_for(kernel);
      interp::InterpProgram(program).run(arguments_of(memory), {});
      ASSERT_EQ(memory, expected) << plan.rerun(i) << "\n" << to_text(opts) << "\n" << program.text();
    }
  }
};

TEST_P(Steps, ComputeTheSameInVectors) { compare(processor()); }
TEST_P(Steps, ComputeTheSameInWorkgroups) { compare(small_gpu()); }

INSTANTIATE_TEST_SUITE_P(Kernels, Steps, testing::ValuesIn(kernel_cases()),
                         [](const auto& given) { return given.param.name; });

// What is searched for is what is compiled then: also no opts at all.
TEST(Searched, TheKernelsOptsAndNoOthers) {
  const UOp kernel = parse(kernel_cases()[0].text);
  EXPECT_FALSE(lower(kernel, processor(), OptChoice::best).opts.empty());
  EXPECT_TRUE(lower(kernel, processor(), OptChoice::searched).opts.empty());
  const auto start = before_opts(kernel, processor());
  const Opts chosen = start ? start->chosen : Opts();
  const LinearProgram best = lower(kernel, processor(), OptChoice::best),
                      named = lower(with_opts(kernel, chosen), processor(), OptChoice::searched);
  EXPECT_EQ(best.list, named.list) << "the heuristic's choice, named";
}

}  // namespace
}  // namespace quern
