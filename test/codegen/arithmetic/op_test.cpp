// Ops taken apart by codegen, run in line on INTERP: the bits of eval().
#include <gtest/gtest.h>

#include "quern/codegen/lower.h"
#include "quern/runtime/interp/program.h"
#include "test/codegen/op_cases.h"
#include "test/fuzz.h"

namespace quern {
namespace {

void compare(const DeviceSpec& spec) {
  const FuzzPlan plan = fuzz_plan(1, 50);
  for (uint64_t i = plan.first; i < plan.first + plan.cases; i++) {
    auto random = plan.generator(i);
    for (const OpCase& what : all_op_cases())
      EXPECT_EQ(difference_from_eval(what, random, 300,
                                     [&](const UOp& kernel, std::span<const Argument> arguments) {
                                       interp::InterpProgram(lower(kernel, spec)).run(arguments, {});
                                     }),
                "")
          << plan.rerun(i);
  }
}

TEST(OpProperty, SameBitsAsEvalWithoutNarrowFloats) {
  DeviceSpec spec;
  spec.has_fp8 = spec.has_bfloat16 = spec.has_float16 = false;
  compare(spec);
}

TEST(OpProperty, SameBitsAsEvalWhereFloat16IsConverted) {
  DeviceSpec spec;
  spec.has_fp8 = spec.has_bfloat16 = spec.has_float16 = false;
  spec.converts_float16 = true;
  compare(spec);
}

TEST(OpProperty, SameBitsAsEvalWithNarrowFloats) { compare({}); }

}  // namespace
}  // namespace quern
