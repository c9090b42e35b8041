// Programs for processors other than this one: LLVM makes code of them, with the vectors that they have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/base/error.h"
#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/cpu/compile.h"
#include "test/codegen/kernels.h"

namespace quern {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

// NEON: 32 registers of 16 bytes, multiplications that add.
DeviceSpec arm() {
  DeviceSpec spec = Device::get("CPU").spec();
  spec.parallel.vector_bytes = 16, spec.memory.registers = 32, spec.has_fma = true;
  return spec;
}

TEST(Cross, ProductsUseTheVectorsOfArm) {
  const UOp kernel = parse(R"(
    %a = LOAD(INDEX(PARAM(; 1):float32*[65536], r0[256] * 256 + r2[256, REDUCE]))
    %b = LOAD(INDEX(PARAM(; 2):float32*[65536], r2 * 256 + r1[256]))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[65536], r0 * 256 + r1), REDUCE(%a * %b, r2; {op: ADD})), r0, r1)))");
  const LinearProgram program = lower(kernel, arm(), OptChoice::best);
  EXPECT_FALSE(program.opts.empty());
  const std::string text = cpu::assembly_for(program, "aarch64-linux-gnu", "generic");
  EXPECT_THAT(text, ContainsRegex("fmla\tv[0-9]+\\.4s"));
}

TEST(Cross, EveryKindOfKernelForArm) {
  for (const KernelCase& c : kernel_cases())
    EXPECT_THAT(
        cpu::assembly_for(lower(parse(c.text), arm(), OptChoice::best), "aarch64-linux-gnu", "cortex-a76"),
        HasSubstr("ret"))
        << c.name;
}

TEST(Cross, ProcessorsThatNobodyKnows) {
  const LinearProgram program = lower(parse(kernel_cases()[0].text), arm(), OptChoice::best);
  EXPECT_THROW(cpu::assembly_for(program, "abacus-linux-gnu", "generic"), Error);
}

}  // namespace
}  // namespace quern
