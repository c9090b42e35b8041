// The CPU device: kernels in IR text to machine code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "quern/base/env.h"
#include "quern/engine/realize/programs.h"
#include "quern/ir/text/parse.h"
#include "test/codegen/kernels.h"
#include "test/codegen/op_cases.h"
#include "test/fuzz.h"

namespace quern {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

Device& cpu() { return Device::get("CPU"); }

template <class... Arrays>
void run_on_cpu(const UOp& kernel, const VariableValues& variables, Arrays&... arrays) {
  const std::vector<Argument> arguments = {
      Argument{arrays.data(), static_cast<int64_t>(arrays.size() * sizeof(arrays[0]))}...};
  program_for(cpu(), kernel)->run(arguments, variables);
}
template <class... Arrays>
void run_on_cpu(const std::string& kernel, Arrays&... arrays) {
  run_on_cpu(parse(kernel), {}, arrays...);
}

TEST(Cpu, LoopsAndReduces) {
  std::vector<float> out(6), in = {1, 5, 3, 4, 4, 8};
  run_on_cpu(R"(
    %p = PARAM(; 1):float32*[6]
    %m = REDUCE(INDEX(%p, r0[2] * 3 + r1[3, REDUCE]):float32, r1; {op: MAX})
    %s = REDUCE(INDEX(%p, r0 * 3 + r2[3, REDUCE]):float32 - %m, r2; {op: ADD})
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[6], r0 * 3 + r3[3]), INDEX(%p, r0 * 3 + r3):float32 - %m + %s), r0, r3)))",
             out, in);
  EXPECT_THAT(out, ElementsAre(-10, -6, -8, -12, -12, -8));
}

TEST(Cpu, GatesNeitherReadNorWriteWhereTheyAreClosed) {
  std::vector<float> out(4, -1), in = counting(2);
  run_on_cpu(R"(
    %i = where(r0[400000] < 2, r0, invalid:index)
    %x = LOAD(INDEX(PARAM(; 1):float32*[2], %i + 0))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], where(r0 < 3, 3 - r0, invalid:index)), %x + 10.0), r0)))",
             out, in);
  EXPECT_THAT(out, ElementsAre(-1, 10, 11, 10));
}

TEST(Cpu, LocalMemoryIsScratchMemory) {
  std::vector<float> out(20000), in = counting(20000);
  run_on_cpu(R"(%l = DEFINE_LOCAL(; 0):float32*[10000]@LOCAL
        %f = BARRIER(END(STORE(INDEX(%l, r1[10000, LOCAL]), LOAD(INDEX(PARAM(; 1):float32*[20000], r0[2, GLOBAL] * 10000 + r1))), r1))
        %x = LOAD(INDEX(AFTER(%l, %f), 9999 - r1))
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[20000], r0 * 10000 + r1), %x), r0, r1)))",
             out, in);
  EXPECT_EQ(out[0], 9999);
  EXPECT_EQ(out[19999], 10000);
}

TEST(Cpu, Vectors) {
  std::vector<float> out(8), in = counting(8);
  run_on_cpu(R"(
    %v = LOAD(CAST(INDEX(PARAM(; 1):float32*[8], r0[2] * 4)):float32x4*[8]):float32x4
    %w = GEP(%v; [3, 2, 1, 0]):float32x4
    SINK(END(STORE(CAST(INDEX(PARAM(; 0):float32*[8], r0 * 4)):float32x4*[8], %v + %w * 10.0:float32x4), r0)))",
             out, in);
  EXPECT_THAT(out, ElementsAre(30, 21, 12, 3, 74, 65, 56, 47));
}

TEST(Cpu, ThreadsAreRunOneAfterAnotherForNow) {
  std::vector<int32_t> out(8, -1);
  run_on_cpu(
      "SINK(END(STORE(INDEX(PARAM(; 0):int32*[8], r0[4, THREAD] * 2 + r1[2]), CAST(r0 * 10 + r1):int32), r0, "
      "r1))",
      out);
  EXPECT_THAT(out, ElementsAre(0, 1, 10, 11, 20, 21, 30, 31));
}

TEST(Cpu, Variables) {
  std::vector<float> out(8, -1);
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0[$n[0..8]]), CAST(r0 + $n):float32), r0); {name: "
      "\"k\"})");
  run_on_cpu(kernel, {{"n", 3}}, out);
  EXPECT_THAT(out, ElementsAre(3, 4, 5, -1, -1, -1, -1, -1));
  out.assign(8, -1);
  run_on_cpu(kernel, {{"n", 0}}, out);
  EXPECT_THAT(out, Each(-1));
  EXPECT_THROW(run_on_cpu(kernel, {}, out), Error);
  EXPECT_THROW(run_on_cpu(kernel, {{"n", 9}}, out), Error);
}

TEST(Cpu, ArgumentsThatOverlap) {  // each element is the one before it, plus one
  std::vector<float> memory(1001);
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[1000], r0[1000]), INDEX(PARAM(; 1):float32*[1000], "
      "r0):float32 + 1.0), r0))");
  const std::vector<Argument> arguments{{memory.data() + 1, 4000}, {memory.data(), 4000}};
  program_for(cpu(), kernel)->run(arguments, {});
  EXPECT_EQ(memory, counting(1001));
}

TEST(Cpu, WrongArgumentsAreErrors) {
  std::vector<float> out(4);
  auto error_of = [](auto function) -> std::string {
    try {
      function();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(
      error_of([&] { run_on_cpu("SINK(STORE(INDEX(PARAM(; 0):float32*[8], 0), 1.0:float32))", out); }),
      HasSubstr("needs 8 elements of float32, its argument has 16 bytes"));
  EXPECT_THAT(
      error_of([&] { run_on_cpu("SINK(STORE(INDEX(PARAM(; 1):float32*[4], 0), 1.0:float32))", out); }),
      HasSubstr("PARAM 1 has no argument"));
  EXPECT_THAT(error_of([&] { run_on_cpu("1 + 2", out); }), HasSubstr("SINK"));
}

TEST(Cpu, MemoryThatWasFreedIsUsedAgain) {
  const env::Override unguarded("GUARD", 0);
  void* first = cpu().allocate(1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0U);  // NOLINT
  cpu().free(first, 1 << 20);
  void* second = cpu().allocate((1 << 20) - 100);
  if (!kSanitized) EXPECT_EQ(first, second);
  cpu().free(second, (1 << 20) - 100);
  EXPECT_THROW(cpu().allocate(int64_t{1} << 58), Error);
}

TEST(CpuProperty, SameBitsAsEval) {
  const FuzzPlan plan = fuzz_plan(1, 50);
  for (uint64_t i = plan.first; i < plan.first + plan.cases; i++) {
    auto random = plan.generator(i);
    for (const OpCase& what : all_op_cases())
      EXPECT_EQ(differences_from_eval({&what, 1}, random, 3000, 1,
                                      [&](const UOp& kernel, std::span<const Argument> arguments) {
                                        program_for(cpu(), kernel)->run(arguments, {});
                                      }),
                "")
          << plan.rerun(i);
  }
}

// The greatest error of a function of float32 on random bits, in units in the last place of the exact result.
struct Errors {
  double normal = 0, subnormal = 0;  // by the result
};
double error_in_ulp(float got, double want) {
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
}
Errors greatest_errors(const std::string& op, double (*exact)(double), uint64_t count) {
  const auto n = static_cast<int64_t>(1 << 16);
  const UOp kernel =
      parse(fmt::format("SINK(END(STORE(INDEX(PARAM(; 0):float32*[{0}], r0[{0}]), {1}(INDEX(PARAM(; "
                        "1):float32*[{0}], r0):float32)), r0))",
                        n, op));
  std::mt19937_64 random(7);
  std::vector<float> in(static_cast<size_t>(n)), out(in.size());
  Errors worst;
  for (uint64_t round = 0; round < count; round++) {
    for (float& x : in) {
      // All bit patterns, and often the range in which results are ordinary numbers.
      const auto bits = static_cast<uint32_t>(random());
      std::memcpy(&x, &bits, sizeof x);
      if (round % 2 == 1) x = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-24F;
    }
    in[0] = 0, in[1] = -0.0F, in[2] = INFINITY, in[3] = -INFINITY, in[4] = NAN, in[5] = 0x1p-149F, in[6] = 1,
    in[7] = -1;
    run_on_cpu(kernel, {}, out, in);
    for (size_t i = 0; i < in.size(); i++) {
      const double want = exact(static_cast<double>(in[i]));
      const auto nearest = static_cast<float>(want);
      if (std::isnan(nearest) || std::isinf(nearest) || nearest == 0) {
        if (std::isnan(nearest)   ? !std::isnan(out[i])
            : std::isinf(nearest) ? out[i] != nearest
                                  : std::abs(out[i]) > 0x1p-149F)
          ADD_FAILURE() << op << "(" << in[i] << ") is " << out[i] << ", not " << nearest;
        if (nearest == 0) EXPECT_EQ(std::signbit(nearest), std::signbit(out[i])) << op << "(" << in[i] << ")";
        continue;
      }
      double& so_far = std::abs(want) < 0x1p-126 ? worst.subnormal : worst.normal;
      so_far = std::max(so_far, error_in_ulp(out[i], want));
    }
  }
  return worst;
}

// Where results are small their last places are, too: all numbers there.
TEST(Cpu, LogarithmOfAllNumbersAroundOne) {
  constexpr uint32_t kFirst = 0x3f3504f3, kLast = 0x3fb504f3;  // sqrt(1/2), sqrt(2)
  std::vector<float> in(kLast - kFirst), out(in.size());
  for (uint32_t i = 0; i < in.size(); i++) {
    const uint32_t bits = kFirst + i;
    std::memcpy(&in[i], &bits, sizeof bits);
  }
  run_on_cpu(parse(fmt::format("SINK(END(STORE(INDEX(PARAM(; 0):float32*[{0}], r0[{0}]), LOG2(INDEX(PARAM(; "
                               "1):float32*[{0}], r0):float32)), r0))",
                               in.size())),
             {}, out, in);
  double worst = 0;
  for (size_t i = 0; i < in.size(); i++)
    if (in[i] != 1) worst = std::max(worst, error_in_ulp(out[i], std::log2(static_cast<double>(in[i]))));
  EXPECT_LE(worst, 0.97);
}

TEST(CpuProperty, ErrorsOfFunctions) {
  const FuzzPlan plan = fuzz_plan(16, 4096);
  const Errors exp2 = greatest_errors("EXP2", std::exp2, plan.cases),
               log2 = greatest_errors("LOG2", std::log2, plan.cases),
               sin = greatest_errors("SIN", std::sin, plan.cases),
               cos = greatest_errors("COS", std::cos, plan.cases);
  EXPECT_LE(exp2.normal, 1.0);
  EXPECT_LE(exp2.subnormal, 1.5);
  EXPECT_LE(log2.normal, 0.57);
  EXPECT_LE(std::max(sin.normal, sin.subnormal), 0.51);
  EXPECT_LE(std::max(cos.normal, cos.subnormal), 0.51);
  fmt::print(
      "greatest errors in ulp: EXP2 {:.3f} ({:.3f} of subnormal results), LOG2 {:.3f}, SIN {:.3f}, COS "
      "{:.3f}\n",
      exp2.normal, exp2.subnormal, log2.normal, sin.normal, cos.normal);
}

// Of float64: random bits, numbers of ordinary size, and those close to where sines are 0 or results not
// normal.
TEST(CpuProperty, ErrorsOfFunctionsOfFloat64) {
  struct Case {
    const char* op;
    long double (*exact)(long double);
  };
  const FuzzPlan plan = fuzz_plan(4, 1000);
  std::mt19937_64 random(7);
  std::vector<double> in(1 << 14), out(in.size());
  for (const Case& f : {Case{"EXP2", std::exp2}, {"LOG2", std::log2}, {"SIN", std::sin}, {"COS", std::cos}}) {
    const UOp kernel =
        parse(fmt::format("SINK(END(STORE(INDEX(PARAM(; 0):float64*[{0}], r0[{0}]), {1}(INDEX(PARAM(; "
                          "1):float64*[{0}], r0):float64)), r0))",
                          in.size(), f.op));
    long double most = 0;
    for (uint64_t round = 0; round < plan.cases; round++) {
      for (double& x : in) {
        const uint64_t bits = random();
        std::memcpy(&x, &bits, sizeof x);
        const double sized = static_cast<double>(static_cast<int64_t>(bits));
        if (round % 4 == 1) x = sized * 0x1p-59;  // up to 16
        if (round % 4 == 2) x = sized * 0x1p-52;  // up to 2048
        if (round % 4 == 3) x = std::round(sized * 0x1p-44) * (std::numbers::pi / 2);
      }
      in[0] = 0, in[1] = -0.0, in[2] = INFINITY, in[3] = -INFINITY, in[4] = NAN, in[5] = 0x1p-1074, in[6] = 1,
      in[7] = -1;
      run_on_cpu(kernel, {}, out, in);
      for (size_t i = 0; i < in.size(); i++) {
        const long double want = f.exact(in[i]);
        const auto nearest = static_cast<double>(want);
        if (!std::isfinite(nearest) || nearest == 0) {
          ASSERT_TRUE(std::isnan(nearest) ? std::isnan(out[i])
                                          : out[i] == nearest || std::abs(out[i]) == 0x1p-1074)
              << f.op << "(" << in[i] << ") is " << out[i] << ", not " << nearest;
          if (nearest == 0)
            ASSERT_EQ(std::signbit(nearest), std::signbit(out[i])) << f.op << "(" << in[i] << ")";
          continue;
        }
        const long double unit = std::ldexp(1.0L, std::max(std::ilogb(want), -1022) - 52);
        most = std::max(most, std::abs(static_cast<long double>(out[i]) - want) / unit);
      }
    }
    EXPECT_LE(most, 1.0L) << f.op;
    fmt::print("greatest error of {} of float64: {:.3f} ulp\n", f.op, static_cast<double>(most));
  }
}

TEST(CpuProperty, ErrorsOfPowers) {
  const FuzzPlan plan = fuzz_plan(8, 2000);
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[16384], r0[16384]), POW(INDEX(PARAM(; 1):float32*[16384], "
      "r0):float32, "
      "INDEX(PARAM(; 2):float32*[16384], r0):float32)), r0))");
  std::mt19937_64 random(7);
  std::vector<float> a(1 << 14), b(a.size()), out(a.size());
  const float special[] = {
      0,         -0.0F, 1,         -1,         0.5F,     -0.5F,        2,           -3,         INFINITY,
      -INFINITY, NAN,   0x1p-149F, -0x1p-140F, 0x1p127F, 1 + 0x1p-23F, 16777215.0F, 33554434.0F};
  double most = 0;
  for (uint64_t round = 0; round < plan.cases; round++) {
    for (size_t i = 0; i < a.size(); i++) {
      const uint64_t bits = random();
      const auto low = static_cast<uint32_t>(bits), high = static_cast<uint32_t>(bits >> 32);
      std::memcpy(&a[i], &low, sizeof low), std::memcpy(&b[i], &high, sizeof high);
      const auto scaled = [](uint32_t x, float unit) {
        return static_cast<float>(static_cast<int32_t>(x)) * unit;
      };
      if (round % 4 == 1) a[i] = std::abs(scaled(low, 0x1p-30F)), b[i] = scaled(high, 0x1p-25F);
      if (round % 4 == 2) a[i] = 1 + scaled(low, 0x1p-44F), b[i] = scaled(high, 0x1p-13F);
      if (round % 4 == 3) a[i] = scaled(low, 0x1p-30F), b[i] = std::round(scaled(high, 0x1p-26F));
    }
    for (size_t i = 0; i < std::size(special) * std::size(special); i++)
      a[i] = special[i / std::size(special)], b[i] = special[i % std::size(special)];
    run_on_cpu(kernel, {}, out, a, b);
    for (size_t i = 0; i < a.size(); i++) {
      const double want = std::pow(static_cast<double>(a[i]), static_cast<double>(b[i]));
      const auto nearest = static_cast<float>(want);
      if (!std::isfinite(nearest) || nearest == 0) {
        ASSERT_TRUE(std::isnan(nearest) ? std::isnan(out[i])
                                        : out[i] == nearest && std::signbit(out[i]) == std::signbit(nearest))
            << a[i] << " to the power of " << b[i] << " is " << out[i] << ", not " << nearest;
        continue;
      }
      most = std::max(most, error_in_ulp(out[i], want));
    }
  }
  EXPECT_LE(most, 0.51);
  fmt::print("greatest error of POW: {:.4f} ulp\n", most);
}

// f(x) of each number, as bits; `opts`: how the loop is split. "": as it is chosen.
std::vector<uint32_t> results(const std::string& f, const std::vector<float>& in, const char* opts) {
  const env::Override given("OPTS", opts);
  std::vector<uint32_t> out(in.size());
  std::vector<float> x = in;
  run_on_cpu(parse(fmt::format("%x = INDEX(PARAM(; 1):float32*[{0}], r0[{0}]):float32\n"
                               "SINK(END(STORE(INDEX(PARAM(; 0):float32*[{0}], r0), {1}), r0))",
                               in.size(), f)),
             {}, out, x);
  return out;
}

// What was computed in one kernel is compared with what another one makes of the same numbers: a gradient
// goes to the greatest value.
TEST(CpuProperty, FunctionsAreTheSameInEachKernel) {
  const FuzzPlan plan = fuzz_plan(1, 100);
  std::mt19937 random(7);
  std::vector<float> in(1 << 14), negative(in.size());
  for (uint64_t round = 0; round < plan.cases; round++) {
    for (size_t i = 0; i < in.size(); i++) {
      in[i] = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-24F;
      if (i % 4 == 0) in[i] = std::round(in[i]) + 0.5F;
      negative[i] = -std::abs(in[i]);
    }
    for (const char* f :
         {"EXP2(%x)", "LOG2(%x)", "SIN(%x)", "COS(%x)", "SQRT(%x)", "RECIP(%x)", "EXP2(%x) * 0.1 + %x"}) {
      const std::vector<uint32_t> alone = results(f, in, "THREAD(0, 2)");
      for (const char* lanes : {"", "UPCAST(0, 2)", "UPCAST(0, 4)", "UPCAST(0, 16)"})
        EXPECT_EQ(results(f, in, lanes), alone) << f << " " << lanes;
    }
    EXPECT_EQ(results("EXP2(%x)", negative, ""), results("EXP2(where(0.0 < %x, 0.0, %x))", negative, ""));
  }
}

}  // namespace
}  // namespace quern
