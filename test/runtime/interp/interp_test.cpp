// The INTERP device: kernels in IR text, run on arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "quern/ir/node/eval.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/interp/program.h"
#include "test/error_of.h"
#include "test/fuzz.h"

namespace quern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class... Arrays>
void run(const UOp& kernel, const VariableValues& variables, Arrays&... arrays) {
  const std::vector<Argument> arguments = {
      Argument{arrays.data(), static_cast<int64_t>(arrays.size() * sizeof(arrays[0]))}...};
  interp::InterpProgram(kernel).run(arguments, variables);
}
template <class... Arrays>
void run(const std::string& kernel, Arrays&... arrays) {
  run(parse(kernel), {}, arrays...);
}

std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

TEST(Interp, Elementwise) {
  std::vector<float> out(4), in = counting(4);
  run("SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r0[4]), LOAD(INDEX(PARAM(; 1):float32*[4], r0)) * 2.0 + "
      "1.0), r0))",
      out, in);
  EXPECT_THAT(out, ElementsAre(1, 3, 5, 7));
}

TEST(Interp, Reduce) {
  std::vector<float> out(2), in = counting(6);
  run(R"(
    %0 = LOAD(INDEX(PARAM(; 1):float32*[6], r0[2, GLOBAL] * 3 + r1[3, REDUCE]))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[2], r0), REDUCE(%0 * %0, r1; {op: ADD})), r0); {name: "squares"}))",
      out, in);
  EXPECT_THAT(out, ElementsAre(5, 50));
}

TEST(Interp, ReduceOfWhatDoesNotDependOnTheRange) {
  std::vector<int32_t> out(1);
  run("SINK(STORE(INDEX(PARAM(; 0):int32*[1], 0), REDUCE(2:int32, r1[5, REDUCE]; {op: ADD})))", out);
  EXPECT_THAT(out, ElementsAre(10));
}

TEST(Interp, SiblingLoopsUnderOneRow) {  // x - max(x), and its sum, without a name for it
  std::vector<float> out(6), in = {1, 5, 3, 4, 4, 8};
  run(R"(
    %p = PARAM(; 1):float32*[6]
    %m = REDUCE(LOAD(INDEX(%p, r0[2] * 3 + r1[3, REDUCE])), r1; {op: MAX})
    %s = REDUCE(LOAD(INDEX(%p, r0 * 3 + r2[3, REDUCE])) - %m, r2; {op: ADD})
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[6], r0 * 3 + r3[3]), LOAD(INDEX(%p, r0 * 3 + r3)) - %m + %s), r0, r3)))",
      out, in);
  EXPECT_THAT(out, ElementsAre(-10, -6, -8, -12, -12, -8));
}

TEST(Interp, ReduceOfSeveralValues) {  // the greatest, and where it is
  std::vector<int32_t> out(2), in = {3, 9, 4, 9};
  run(R"(
    %x = LOAD(INDEX(PARAM(; 1):int32*[4], r0[4, REDUCE]))
    %a = STATE(0):int32
    %b = STATE(2):int32
    %body = TUPLE(max(%a, %b), where(%a < %b, STATE(3):int32, STATE(1):int32))
    %r = REDUCE(%x, CAST(r0):int32, -2147483648:int32, -1:int32, %body, r0; {op: NOOP, states: 2})
    %out = PARAM(; 0):int32*[2]
    SINK(STORE(INDEX(%out, 0), GETTUPLE(%r; 0):int32), STORE(INDEX(%out, 1), GETTUPLE(%r; 1):int32)))",
      out, in);
  EXPECT_THAT(out, ElementsAre(9, 1));
}

TEST(Interp, GatesCloseLoadsAndStores) {
  std::vector<float> out(4, -1), in = counting(2);
  run(R"(
    %i = where(r0[4] < 2, r0, invalid:index)
    %x = LOAD(INDEX(PARAM(; 1):float32*[2], %i + 0))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], where(r0 < 3, 3 - r0, invalid:index)), %x + 10.0), r0)))",
      out, in);
  EXPECT_THAT(out, ElementsAre(-1, 10, 11, 10));
}

TEST(Interp, LocalMemoryAndBarriers) {  // each workgroup reverses its part
  std::vector<float> out(8), in = counting(8);
  const std::string store =
      "STORE(INDEX(%l, r1[4, LOCAL]), LOAD(INDEX(PARAM(; 1):float32*[8], r0[2, GLOBAL] * 4 + r1)))";
  for (const std::string& filled : {"END(" + store + ", r1)", store}) {  // a BARRIER ends loops of threads
    out.assign(8, -1);
    run("%l = DEFINE_LOCAL(; 0):float32*[4]@LOCAL\n%f = BARRIER(" + filled + R"()
        %x = LOAD(INDEX(AFTER(%l, %f), 3 - r1))
        SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0 * 4 + r1), %x), r0, r1)))",
        out, in);
    EXPECT_THAT(out, ElementsAre(3, 2, 1, 0, 7, 6, 5, 4));
  }
}

TEST(Interp, RegistersAreThoseOfAThread) {
  std::vector<float> out(4);
  run(R"(
    %reg = DEFINE_REG(; 0):float32*[1]@REG
    %set = BARRIER(STORE(INDEX(%reg, 0), CAST(r1[4, LOCAL]):float32))
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r1), LOAD(INDEX(AFTER(%reg, %set), 0)) * 2.0), r1)))",
      out);
  EXPECT_THAT(out, ElementsAre(0, 2, 4, 6));
}

TEST(Interp, RegistersSetOutsideOfTheThreadsAreSetForAll) {
  std::vector<float> out(4);
  run(R"(
    %reg = DEFINE_REG(; 0):float32*[1]@REG
    %set = STORE(INDEX(%reg, 0), 3.0:float32)
    %acc = INDEX(AFTER(%reg, %set, r1[4, LOCAL], r2[2]), 0)
    %add = END(STORE(%acc, LOAD(%acc) + CAST(r1):float32), r2)
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r1), LOAD(INDEX(AFTER(%reg, %add), 0))), r1)))",
      out);
  EXPECT_THAT(out, ElementsAre(3, 5, 7, 9));
}

TEST(Interp, AccumulatorInARegister) {
  std::vector<float> out(2), in = counting(6);
  run(R"(
    %reg = DEFINE_REG(; 0):float32*[1]@REG
    %start = STORE(INDEX(AFTER(%reg, r0[2]), 0), 0.0:float32)
    %acc = INDEX(AFTER(%reg, %start, r1[3]), 0)
    %add = END(STORE(%acc, LOAD(%acc) + LOAD(INDEX(PARAM(; 1):float32*[6], r0 * 3 + r1))), r1)
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[2], r0), LOAD(INDEX(AFTER(%reg, %add), 0))), r0)))",
      out, in);
  EXPECT_THAT(out, ElementsAre(3, 12));
}

TEST(Interp, Stage) {
  std::vector<int32_t> out(6);
  run(R"(
    %s = STAGE(CAST(r1[2] * 10 + r2[3]):int32, r1, r2; {space: LOCAL})
    SINK(END(STORE(INDEX(PARAM(; 0):int32*[6], r3[3] * 2 + r4[2]), INDEX(%s, r4, r3):int32), r3, r4)))",
      out);
  EXPECT_THAT(out, ElementsAre(0, 10, 1, 11, 2, 12));
}

TEST(Interp, Vectors) {
  std::vector<float> out(8), in = counting(8);
  run(R"(
    %v = LOAD(CAST(INDEX(PARAM(; 1):float32*[8], r0[2] * 4)):float32x4*[8]):float32x4
    %w = GEP(%v; [3, 2, 1, 0]):float32x4
    SINK(END(STORE(CAST(INDEX(PARAM(; 0):float32*[8], r0 * 4)):float32x4*[8], %v + %w * 10.0:float32x4), r0)))",
      out, in);
  EXPECT_THAT(out, ElementsAre(30, 21, 12, 3, 74, 65, 56, 47));
}

TEST(Interp, Variables) {
  std::vector<float> out(8, -1);
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[8], r0[$n[1..8]]), CAST(r0 + $n):float32), r0); {name: "
      "\"k\"})");
  run(kernel, {{"n", 3}}, out);
  EXPECT_THAT(out, ElementsAre(3, 4, 5, -1, -1, -1, -1, -1));
  EXPECT_THROW(run(kernel, {}, out), Error);
  EXPECT_THROW(run(kernel, {{"n", 9}}, out), Error);
}

TEST(Interp, WrongKernelsAndIndicesAreErrors) {
  std::vector<float> out(4);
  EXPECT_EQ(error_of([&] {
              run("SINK(END(STORE(INDEX(PARAM(; 0):float32*[4], r0[5]), 1.0:float32), r0); {name: \"fill\"})",
                  out);
            }),
            "kernel fill: index 4 is out of range for PARAM 0, which has 4 elements");
  EXPECT_THAT(error_of([&] { run("SINK(STORE(INDEX(PARAM(; 0):float32*[4], -1), 1.0:float32))", out); }),
              HasSubstr("index -1 is out of range"));
  EXPECT_THAT(error_of([&] { run("SINK(STORE(INDEX(PARAM(; 0):float32*[8], 0), 1.0:float32))", out); }),
              HasSubstr("needs 8 elements of float32, its argument has 16 bytes"));
  EXPECT_THAT(error_of([&] { run("SINK(STORE(INDEX(PARAM(; 1):float32*[4], 0), 1.0:float32))", out); }),
              HasSubstr("PARAM 1 has no argument"));
  EXPECT_THAT(error_of([&] { run("SINK(STORE(INDEX(PARAM(; 0):float32*[4], r0[4]), 1.0:float32))", out); }),
              HasSubstr("range 0 is not closed"));
  EXPECT_THAT(error_of([&] { run("1 + 2", out); }), HasSubstr("INTERP runs kernels"));
  EXPECT_THAT(error_of([&] {
                run("SINK(STORE(INDEX(PARAM(; 0):float32*[4], SPECIAL(4; \"g\")), 1.0:float32))", out);
              }),
              HasSubstr("SPECIAL"));
}

TEST(Interp, DeepGraphsAndManyReduces) {
  std::vector<int32_t> out(3);
  UOp x = UOp::range(3, 0).cast(dtypes::int32);
  for (int i = 0; i < 100000; i++)
    x = UOp::make(Op::ADD, dtypes::int32, {x, UOp::constant(dtypes::int32, 1)});
  auto kernel = [](const UOp& value) {
    const UOp r = UOp::range(3, 0), p = UOp::make(Op::PARAM, dtypes::int32.ptr(3), {}, 0);
    const UOp at = UOp::make(Op::INDEX, dtypes::int32.ptr(3), {p, r});
    return UOp::sink(
        UOps{UOp::make(Op::END, dtypes::void_, {UOp::make(Op::STORE, dtypes::void_, {at, value}), r})});
  };
  run(kernel(x), {}, out);
  EXPECT_THAT(out, ElementsAre(100000, 100001, 100002));

  // Each needs the one before it: loops one after the other, not one in the other.
  x = UOp::range(3, 0).cast(dtypes::int32);
  for (int i = 1; i <= 20000; i++)
    x = UOp::make(Op::REDUCE, dtypes::int32, {x + i % 2, UOp::range(2, i, AxisKind::REDUCE)},
                  ReduceArg{.op = Op::MAX, .axes = {}, .states = 1});
  run(kernel(x), {}, out);
  EXPECT_THAT(out, ElementsAre(10000, 10001, 10002));
}

// Every op on every dtype gives the bits of eval().
TEST(InterpProperty, SameBitsAsEval) {
  const FuzzPlan plan = fuzz_plan(3000, 300000);
  for (uint64_t n = plan.first; n < plan.first + plan.cases; n++) {
    std::mt19937_64 random = plan.generator(n);
    const DType in = dtypes::all[random() % std::size(dtypes::all)];
    const Op op = static_cast<Op>(pick(random, static_cast<int>(Op::CAST), kOpCount - 1));
    const bool bitwise = op == Op::AND || op == Op::OR || op == Op::XOR;
    const bool division = op == Op::FLOORDIV || op == Op::FLOORMOD || op == Op::TRUNCDIV ||
                          op == Op::TRUNCMOD || op == Op::SHL || op == Op::SHR;
    const bool real = op == Op::RECIP || op == Op::SQRT || op == Op::EXP2 || op == Op::LOG2 ||
                      op == Op::SIN || op == Op::COS || op == Op::TRUNC || op == Op::FDIV;
    if (op == Op::THREEFRY && in != dtypes::uint64) continue;
    if ((bitwise && in.is_float()) || (division && !in.is_int()) || (real && !in.is_float())) continue;
    DType out = is_comparison(op) ? dtypes::bool_ : in;
    if (op == Op::CAST) out = dtypes::all[random() % std::size(dtypes::all)];
    const size_t count = static_cast<size_t>(info(op).least_sources);
    UOps operands;
    std::vector<Const> values;
    for (size_t i = 0; i < count; i++) {
      const DType dtype = op == Op::WHERE && i == 0 ? dtypes::bool_ : in;
      Const value = from_bits(one_in(random, 3) ? random() % 5 : random(), dtype);
      if (one_in(random, 8)) value = one_in(random, 2) ? max_value(dtype) : min_value(dtype);
      values.push_back(value);
      // Through memory, so that nothing is a constant.
      const UOp p = UOp::make(Op::PARAM, dtype.ptr(1), {}, static_cast<int64_t>(i) + 1);
      operands.push_back(UOp::make(Op::INDEX, dtype, {p, UOp::index(0)}));
    }
    const UOp result = UOp::make(op, out, operands);
    const UOp at = UOp::make(Op::INDEX, out.ptr(1), {UOp::make(Op::PARAM, out.ptr(1), {}, 0), UOp::index(0)});
    const UOp kernel = UOp::sink(UOps{UOp::make(Op::STORE, dtypes::void_, {at, result})});
    uint64_t memory[4] = {};
    std::vector<Argument> arguments{{&memory[0], out.bytes()}};
    for (size_t i = 0; i < count; i++) {
      memory[i + 1] = to_bits(values[i], operands[i].dtype());
      arguments.push_back({&memory[i + 1], operands[i].dtype().bytes()});
    }
    interp::InterpProgram(kernel).run(arguments, {});
    const Const expected = eval(op, out, in, values);
    EXPECT_EQ(memory[0], to_bits(expected, out))
        << name(op) << " of " << in.name() << " to " << out.name() << "; " << plan.rerun(n);
  }
}

}  // namespace
}  // namespace quern
