// Kernels on the CL device: the bits of eval() and of INTERP, in real workgroups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/codegen/lower.h"
#include "quern/engine/realize/programs.h"
#include "quern/ir/text/parse.h"
#include "test/codegen/kernels.h"
#include "test/codegen/op_cases.h"
#include "test/fuzz.h"

namespace quern {
namespace {

using testing::HasSubstr;

// Skips where there is no OpenCL, and says what is missing.
#define QUERN_NEEDS_CL()           \
  try {                            \
    (void)Device::get("CL");       \
  } catch (const DeviceError& e) { \
    GTEST_SKIP() << e.what();      \
  }

class ClCases : public testing::TestWithParam<KernelCase> {};

TEST_P(ClCases, AnyOptsComputeTheSame) {
  QUERN_NEEDS_CL();
  constexpr OptKind kinds[] = {OptKind::LOCAL, OptKind::GROUP, OptKind::GROUPTOP, OptKind::UPCAST,
                               OptKind::UNROLL};
  Device& device = Device::get("CL");
  const UOp kernel = parse(GetParam().text);
  const Memory expected = by_interp(kernel);
  EXPECT_EQ(on_device(device, kernel), expected);
  const FuzzPlan plan = fuzz_plan(4, 300);
  std::mt19937 random(static_cast<uint32_t>(plan.seed));
  for (uint64_t i = 0; i < plan.cases; i++) {
    const Opts opts = random_opts_for(kernel, kinds, device.spec(), random);
    if (opts.empty()) break;
    ASSERT_EQ(on_device(device, with_opts(kernel, opts)), expected)
        << to_text(opts) << "\n"
        << device.source(lower(with_opts(kernel, opts), device.spec()));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, ClCases, testing::ValuesIn(kernel_cases()),
                         [](const auto& given) { return given.param.name; });

TEST(ClProperty, SameBitsAsEval) {
  QUERN_NEEDS_CL();
  Device& device = Device::get("CL");
  std::mt19937_64 random(3);
  std::vector<OpCase> cases = all_op_cases();
  std::erase_if(cases, [&](const OpCase& what) {
    return !device.spec().has_float64 && (what.in == dtypes::float64 || what.out == dtypes::float64);
  });
  constexpr size_t together = 50;
  for (size_t i = 0; i < cases.size(); i += together)
    // OpenCL allows 16 units in the last place to pow, 4 to sin and fewer to others
    EXPECT_EQ(differences_from_eval(std::span(cases).subspan(i, std::min(together, cases.size() - i)), random,
                                    256, 16,
                                    [&](const UOp& kernel, std::span<const Argument> arguments) {
                                      run_on(device, kernel, arguments);
                                    }),
              "");
}

TEST(Cl, Variables) {
  QUERN_NEEDS_CL();
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0[$n[0..8]]), CAST(r0 + $n):float32), r0); {name: "
      "\"k\"})");
  std::vector<float> out(8, -1);
  const std::vector<Argument> arguments{{out.data(), 32}};
  run_on(Device::get("CL"), kernel, arguments, {{"n", 3}});
  EXPECT_THAT(out, testing::ElementsAre(3, 4, 5, -1, -1, -1, -1, -1));
  run_on(Device::get("CL"), kernel, arguments, {{"n", 0}});
  EXPECT_EQ(out[0], 3);
  EXPECT_THROW(run_on(Device::get("CL"), kernel, arguments), Error);
  EXPECT_THROW(run_on(Device::get("CL"), kernel, arguments, {{"n", 9}}), Error);
}

TEST(Cl, ArgumentsThatOverlap) {  // each element is the one before it, plus one
  QUERN_NEEDS_CL();
  Device& device = Device::get("CL");
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[1000], r0[1000]), INDEX(PARAM(; 1):float32*[1000], "
      "r0):float32 + 1.0), r0))");
  std::vector<float> memory(1001);
  auto* there = static_cast<std::byte*>(device.allocate(4004));
  device.copy_in(there, memory.data(), 4004);
  const std::vector<Argument> arguments{{there + 4, 4000}, {there, 4000}};
  program_for(device, kernel)->run(arguments, {});
  device.copy_out(memory.data(), there, 4004);
  device.free(there, 4004);
  for (size_t i = 0; i < memory.size(); i++) ASSERT_EQ(memory[i], static_cast<float>(i));
}

TEST(Cl, WrongArgumentsAreErrors) {
  QUERN_NEEDS_CL();
  Device& device = Device::get("CL");
  std::vector<float> out(4);
  const std::vector<Argument> arguments{{out.data(), 16}};
  EXPECT_THROW(run_on(device, parse("SINK(STORE(INDEX(PARAM(; 0):float32*[8], 0), 1.0:float32))"), arguments),
               Error);
  EXPECT_THROW(run_on(device, parse("SINK(STORE(INDEX(PARAM(; 1):float32*[4], 0), 1.0:float32))"), arguments),
               Error);
  // memory of the host is none of the device's
  EXPECT_THROW(program_for(device, parse("SINK(STORE(INDEX(PARAM(; 0):float32*[4], 0), 1.0:float32))"))
                   ->run(arguments, {}),
               DeviceError);
  // too much LOCAL memory
  EXPECT_THROW(run_on(device, parse(R"(%l = DEFINE_LOCAL(; 0):float32*[100000000]@LOCAL
      %f = BARRIER(STORE(INDEX(%l, 0), 1.0))
      SINK(STORE(INDEX(PARAM(; 0):float32*[4], 0), LOAD(INDEX(AFTER(%l, %f), 0)))))"),
                      arguments),
               Error);
}

}  // namespace
}  // namespace quern
