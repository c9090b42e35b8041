// Random programs of tensors: run lazily, all outputs at once, they compute what they compute when every call
// is run as it is made. Integers (also in floats) agree to the bit. Random floats agree with the same program
// in float64 within an error bound: a sum over the operations of eps times the magnitude of what they
// compute, carried through what comes after them (estimate() in program.cpp).
#include <gtest/gtest.h>

#include "quern/base/env.h"
#include "quern/runtime/device.h"
#include "test/engine/program.h"
#include "test/fuzz.h"

namespace quern {
namespace {

enum class Kernels : uint8_t { chosen_opts, no_opts, random_opts };

void compare(bool floats, const std::string& device = "INTERP", Kernels kernels = Kernels::chosen_opts) {
  const bool slow = device == "CL";  // its compiler takes 0.3 s for a kernel
  const uint64_t cases = slow ? 4 : device == "INTERP" ? 250 : kernels == Kernels::chosen_opts ? 150 : 50;
  const FuzzPlan plan = fuzz_plan(cases, slow ? 200 : device == "INTERP" ? 10'000 : 2'500);
  const env::Override noopt("NOOPT", kernels == Kernels::no_opts ? 1 : 0);
  for (uint64_t i = plan.first; i < plan.first + plan.cases; i++) {
    auto random = plan.generator(i);
    program::Program made;
    ASSERT_NO_THROW(made = program::random_program(random, floats, static_cast<int64_t>(2 + i % 49)))
        << plan.rerun(i);
    made.device = device;
    const env::Override opts("OPTS", kernels == Kernels::random_opts ? fmt::format("random:{}", i) : "");
    const auto failure = program::check(made);
    if (!failure) continue;
    const program::Program small = program::shrink(made, *failure);
    const auto why = program::check(small).value_or(*failure);
    FAIL() << plan.rerun(i) << "\n" << why.text << "\n" << small.source();
  }
}

TEST(ProgramFuzz, IntegersAreTheSameLazilyAndEagerly) { compare(false); }
TEST(ProgramFuzz, FloatsAreTheSameLazilyAndEagerly) { compare(true); }

TEST(ProgramFuzz, IntegersOnTheCpu) { compare(false, "CPU"); }
TEST(ProgramFuzz, FloatsOnTheCpu) { compare(true, "CPU"); }
TEST(ProgramFuzz, IntegersOnTheCpuAsScheduled) { compare(false, "CPU", Kernels::no_opts); }
TEST(ProgramFuzz, FloatsOnTheCpuAsScheduled) { compare(true, "CPU", Kernels::no_opts); }
TEST(ProgramFuzz, IntegersOnTheCpuWithRandomOpts) { compare(false, "CPU", Kernels::random_opts); }
TEST(ProgramFuzz, FloatsOnTheCpuWithRandomOpts) { compare(true, "CPU", Kernels::random_opts); }

TEST(ProgramFuzz, IntegersInWorkgroups) { compare(false, "LINEAR"); }
TEST(ProgramFuzz, FloatsInWorkgroups) { compare(true, "LINEAR"); }

void compare_on_cl(bool floats) {
  try {
    (void)Device::get("CL");
  } catch (const DeviceError& e) {
    GTEST_SKIP() << e.what();
  }
  compare(floats, "CL");
}
TEST(ProgramFuzz, IntegersOnCl) { compare_on_cl(false); }
TEST(ProgramFuzz, FloatsOnCl) { compare_on_cl(true); }

TEST(ProgramFuzz, FailuresAreShrunkAndPrinted) {
  using program::Call;
  const program::Program wrong{
      .list = {{.call = Call::input, .numbers = {2}, .dtype = dtypes::int32, .data = {1, 2}},
               {.call = Call::unary, .name = "neg", .from = {0}},
               {.call = Call::clamp, .from = {1}, .number = 3},
               {.call = Call::reshape, .from = {0}, .numbers = {3}}},
      .outputs = {2, 3}};
  const auto failure = program::check(wrong);
  ASSERT_TRUE(failure);
  EXPECT_EQ(
      program::shrink(wrong, *failure).source(),
      "const std::vector<Tensor> outputs = [] {\n"
      "  const Tensor t0 = Tensor::from(std::vector<int32_t>{0, 0}, Shape{2}, {.device = \"INTERP\"});\n"
      "  const Tensor t1 = t0.reshape({1});\n"
      "  return std::vector<Tensor>{t0};\n"
      "}();\n"
      "Tensor::realize_all(outputs);\n");
}

}  // namespace
}  // namespace quern
