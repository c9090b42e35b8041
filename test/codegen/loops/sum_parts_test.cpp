// Long sums of floats: how they are parted, and that little is lost in them.
#include "quern/codegen/loops/sum_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>

#include "quern/base/env.h"
#include "quern/codegen/analysis/strides.h"
#include "quern/codegen/lower.h"
#include "quern/codegen/memory/addresses.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/device.h"
#include "test/codegen/kernels.h"

namespace quern {
namespace {

// One result of this, over the loop r1[n]; %x is p[r1].
UOp kernel(int64_t n, std::string_view result, std::string_view dtype = "float32") {
  return parse(
      fmt::format("%x = INDEX(PARAM(; 1):{0}*[{1}], r1[{1}, REDUCE]):{0}\n"
                  "SINK(END(STORE(INDEX(PARAM(; 0):{0}*[1], r0[1]), {2}), r0))",
                  dtype, n, result));
}
constexpr std::string_view kSum = "REDUCE(%x, r1; {op: ADD})";

// The steps of the loops of each REDUCE, those inside first.
std::vector<Ints> loops(const UOp& program) {
  std::vector<Ints> found;
  for (const UOp& u : program.toposort()) {
    if (u.op() != Op::REDUCE) continue;
    Ints& counts = found.emplace_back();
    for (const UOp& s : u.src().subspan(1)) counts.push_back(steps(s));
  }
  return found;
}
std::vector<Ints> parted(const UOp& k) { return loops(sums_in_parts(to_addresses(k))); }

using LoopSizes = std::vector<Ints>;

TEST(SumParts, AsManyPartsAsStepsInAPart) {
  EXPECT_EQ(parted(kernel(10000, kSum)), (LoopSizes{{100}, {100}}));
  EXPECT_EQ(parted(kernel(1600, kSum)), (LoopSizes{{64}, {25}})) << "but no short parts";
  EXPECT_EQ(parted(kernel(250, kSum)), (LoopSizes{{250}})) << "it is not long";
  EXPECT_EQ(parted(kernel(10007, kSum)), (LoopSizes{{10007}})) << "a prime";
  EXPECT_EQ(parted(kernel(10000, kSum, "int32")), (LoopSizes{{10000}})) << "nothing is lost";
  EXPECT_EQ(parted(kernel(10000, "REDUCE(%x, r1; {op: MAX})")), (LoopSizes{{10000}})) << "nothing is lost";
}

TEST(SumParts, OfSeveralLoopsTheInnerOnes) {
  const UOp k = parse(
      "%x = INDEX(PARAM(; 1):float32*[819200], r0[32] * 400 + r1[64, REDUCE] * 12800 + r2[25, REDUCE] * 16 + "
      "r3[16, REDUCE]):float32\n"
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[32], r0), REDUCE(%x, r1, r2, r3; {op: ADD})), r0))");
  EXPECT_EQ(parted(k), (LoopSizes{{25, 16}, {64}}));
  const Memory want = by_interp(k);
  EXPECT_EQ(in_line(k, lower(k, Device::get("CPU").spec(), OptChoice::best)), want);
}

TEST(SumParts, WhatIsInTheSameLoopStaysThere) {
  EXPECT_EQ(parted(kernel(10000, "REDUCE(%x, r1; {op: ADD}) + REDUCE(%x, r1; {op: MAX})")),
            (LoopSizes{{100}, {100}, {100}, {100}}));
  const UOp inner = parse(
      "%x = INDEX(PARAM(; 1):float32*[1000000], r1[1000, REDUCE] * 1000 + r2[1000, REDUCE]):float32\n"
      "%y = REDUCE(%x, r1, r2; {op: ADD}) + REDUCE(INDEX(PARAM(; 2):float32*[1000], r1):float32, r1; {op: "
      "ADD})\n"
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[1], r0[1]), %y), r0))");
  EXPECT_EQ(parted(inner), loops(inner)) << "r1 is a loop of both";
}

// A number whose sums have to be rounded nearly each time.
double error_of_sum(int64_t n) {
  const UOp k = kernel(n, kSum);
  DeviceSpec spec = Device::get("CPU").spec();
  const LinearProgram program = lower(k, spec, OptChoice::best);
  std::vector<float> in(static_cast<size_t>(n), 0.1F);
  float out = 0;
  const std::vector<Argument> arguments = {{&out, sizeof out}, {in.data(), n * 4}};
  Device::get("CPU").compile(program)->run(arguments, {});
  const double want = static_cast<double>(0.1F) * static_cast<double>(n);
  return std::abs(out - want) / want;
}

TEST(SumParts, LittleIsLost) {
  for (const int64_t n : {6144, 65536, 1048576}) EXPECT_LT(error_of_sum(n), 1e-5) << n;
  const env::Override in_order("NOOPT", 1);
  EXPECT_GT(error_of_sum(1048576), 1e-3) << "in order, as NOOPT asks for";
}

}  // namespace
}  // namespace quern
