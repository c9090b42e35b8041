// Optimisations: kernels compute the same with any of them, on INTERP (in line) and on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "quern/base/env.h"
#include "quern/codegen/choose/heuristic.h"
#include "quern/codegen/linearize/linearize.h"
#include "quern/codegen/lower.h"
#include "quern/codegen/vector/expand.h"
#include "quern/engine/realize/programs.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/text/parse.h"
#include "quern/tensor/core/tensor.h"
#include "test/codegen/kernels.h"

namespace quern {
namespace {

using testing::HasSubstr;

DeviceSpec with_vectors() {
  DeviceSpec spec;
  spec.has_fp8 = spec.has_bfloat16 = spec.has_float16 = false;
  spec.parallel.vector_bytes = 32;
  spec.has_fma = spec.adds_addresses_in_64_bits = true;
  return spec;
}

// Kernels on memory of up to 256 elements; PARAM 0 is written.
struct Case {
  const char* name;
  const char* text;
};
const Case kCases[] = {
    {"elementwise", R"(
      %x = INDEX(PARAM(; 1):float32*[96], r0[8] * 12 + r1[12]):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[96], r0 * 12 + r1), %x * 2.0 + INDEX(PARAM(; 2):float32*[12], r1):float32), r0, r1)))"},
    {"transpose", R"(
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[96], r0[8] * 12 + r1[12]), INDEX(PARAM(; 1):float32*[96], r1 * 8 + r0):float32), r0, r1)))"},
    {"matmul", R"(
      %a = INDEX(PARAM(; 1):float32*[96], r0[8] * 12 + r2[12, REDUCE]):float32
      %b = INDEX(PARAM(; 2):float32*[192], r2 * 16 + r1[16]):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[128], r0 * 16 + r1), REDUCE(%a * %b, r2; {op: ADD}) + 1.0), r0, r1)))"},
    {"matmul of a transposed", R"(
      %a = INDEX(PARAM(; 1):int32*[96], r0[8] * 12 + r2[12, REDUCE]):int32
      %b = INDEX(PARAM(; 2):int32*[192], r1[16] * 12 + r2):int32
      SINK(END(STORE(INDEX(PARAM(; 0):int32*[128], r0 * 16 + r1), REDUCE(%a * %b, r2; {op: ADD})), r0, r1)))"},
    {"siblings", R"(
      %p = PARAM(; 1):float32*[192]
      %m = REDUCE(INDEX(%p, r0[8] * 24 + r1[24, REDUCE]):float32, r1; {op: MAX})
      %s = REDUCE(INDEX(%p, r0 * 24 + r2[24, REDUCE]):float32 - %m, r2; {op: ADD})
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[192], r0 * 24 + r3[24]), INDEX(%p, r0 * 24 + r3):float32 - %m + %s), r0, r3)))"},
    {"functions in two loops", R"(
      %p = PARAM(; 1):float32*[192]
      %m = REDUCE(INDEX(%p, r0[8] * 24 + r1[24, REDUCE]):float32, r1; {op: MAX})
      %s = REDUCE(EXP2(INDEX(%p, r0 * 24 + r2[24, REDUCE]):float32 - %m), r2; {op: ADD})
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[192], r0 * 24 + r3[24]), EXP2(INDEX(%p, r0 * 24 + r3):float32 - %m) + %s), r0, r3)))"},
    {"odd sizes", R"(
      %a = INDEX(PARAM(; 1):float32*[77], r0[7] * 11 + r2[11, REDUCE]):float32
      %b = INDEX(PARAM(; 2):float32*[143], r2 * 13 + r1[13]):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[91], r0 * 13 + r1), REDUCE(%a * %b, r2; {op: ADD}) + 1.0), r0, r1)))"},
    {"an odd row", R"(
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[203], r0[203]), INDEX(PARAM(; 1):float32*[203], r0):float32 + 1.0), r0)))"},
    {"columns", R"(
      %x = INDEX(PARAM(; 1):float32*[192], r1[12, REDUCE] * 16 + r0[16]):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[16], r0), REDUCE(%x, r1; {op: MAX}) + REDUCE(%x, r1; {op: ADD})), r0)))"},
    {"padding", R"(
      %x = LOAD(INDEX(PARAM(; 1):float32*[60], where((0 < r0[8]) & (r0 < 7) & (0 < r1[12]) & (r1 < 11), r0 * 10 + r1 - 11, invalid:index)))
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[96], r0 * 12 + r1), %x + 1.0), r0, r1)))"},
    {"a gated store", R"(
      %x = INDEX(PARAM(; 1):float32*[96], r0[8] * 12 + r1[12]):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[40], where((r0 < 4) & (r1 < 10), r0 * 10 + r1, invalid:index)), %x), r0, r1)))"},
    {"convolution", R"(
      %x = LOAD(INDEX(PARAM(; 1):float32*[32], where((0 < r1[16] + r3[3, REDUCE]) & (r1 + r3 < 17), r2[2, REDUCE] * 16 + r1 + r3 - 1, invalid:index)))
      %w = INDEX(PARAM(; 2):float32*[24], r0[4] * 6 + r2 * 3 + r3):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[64], r0 * 16 + r1), REDUCE(%x * %w, r2, r3; {op: ADD})), r0, r1)))"},
    {"gather", R"(
      %i = INDEX(PARAM(; 1):int32*[24], r0[24]):int32
      %at = CAST(%i & 15):index
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[24], r0), INDEX(PARAM(; 2):float32*[16], %at):float32), r0)))"},
    {"indices as values", R"(
      %i = r0[8] * 12 + r1[12]
      SINK(END(STORE(INDEX(PARAM(; 0):int32*[96], %i), where(%i % 5 < 2, CAST(%i // 3 + r1):int32, -7)), r0, r1)))"},
    {"values that are invalid somewhere", R"(
      %i = where((r0[24] + 2 < 20) & (1 < r0), r0 * 3 + 1, invalid:index)
      SINK(END(STORE(INDEX(PARAM(; 0):int32*[24], r0), where((r0 + 2 < 20) & (1 < r0), CAST(%i):int32, 5)), r0)))"},
    {"bools and bytes", R"(
      %x = INDEX(PARAM(; 1):int8*[96], r0[96]):int8
      SINK(END(STORE(INDEX(PARAM(; 0):bool*[96], r0), %x < 3:int8), r0)))"},
    {"half", R"(
      %x = INDEX(PARAM(; 1):bfloat16*[96], r0[4] * 24 + r1[24, REDUCE]):bfloat16
      SINK(END(STORE(INDEX(PARAM(; 0):bfloat16*[4], r0), CAST(REDUCE(CAST(%x):float32, r1; {op: MAX})):bfloat16), r0)))"},
    {"a reduce of what does not change", R"(
      %x = INDEX(PARAM(; 1):float32*[16], r0[16]):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[16], r0), REDUCE(%x, r1[8, REDUCE]; {op: ADD}) + REDUCE(%x * %x, r1; {op: ADD})), r0)))"},
    {"in place", R"(
      %p = INDEX(PARAM(; 0):float32*[96], r0[96])
      SINK(END(STORE(%p, LOAD(%p) * 2.0 + 1.0), r0)))"},
    {"reduces in each other", R"(
      %x = INDEX(PARAM(; 1):float32*[192], r0[2] * 96 + r1[12, REDUCE] * 8 + r2[8, REDUCE]):float32
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[2], r0), REDUCE(REDUCE(%x, r2; {op: MAX}), r1; {op: ADD})), r0)))"},
};

LinearProgram optimised(const UOp& kernel, const Opts& opts) {
  const UOp graph = lower_to_program(with_opts(kernel, opts), with_vectors(), OptChoice::best);
  check(graph, Level::program, "lower");
  LinearProgram program = linearize(graph);
  check(program);
  return program;
}

Opt random_opt(std::mt19937& random) {
  constexpr OptKind kinds[] = {OptKind::UPCAST, OptKind::UNROLL, OptKind::UPCAST,
                               OptKind::UNROLL, OptKind::SWAP,   OptKind::THREAD,
                               OptKind::BLOCK,  OptKind::PACK,   OptKind::PADTO};
  constexpr int64_t amounts[] = {0, 2, 3, 4, 8, 2, 4};
  const OptKind kind = kinds[random() % std::size(kinds)];
  if (kind == OptKind::PACK)
    return {kind, static_cast<int64_t>(random() % 4), static_cast<int64_t>(random() % 3)};
  if (kind == OptKind::SWAP)
    return {kind, static_cast<int64_t>(random() % 2), static_cast<int64_t>(random() % 2)};
  return {kind, static_cast<int64_t>(random() % 4), amounts[random() % std::size(amounts)]};
}

// Opts that the kernel takes.
Opts random_opts(const UOp& kernel, std::mt19937& random) {
  Opts opts;
  const size_t wanted = 1 + random() % 5;
  for (int i = 0; i < 30 && opts.size() < wanted; i++) {
    opts.push_back(random_opt(random));
    try {
      (void)lower_to_program(with_opts(kernel, opts), with_vectors(), OptChoice::best);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      opts.pop_back();
    }
  }
  return opts;
}

class OptCases : public testing::TestWithParam<Case> {};

TEST_P(OptCases, AnyOptsComputeTheSame) {
  const UOp kernel = parse(GetParam().text);
  const Memory plainly = by_interp(kernel);
  std::mt19937 random(11);
  for (int round = 0; round < 40; round++) {
    const Opts opts = random_opts(kernel, random);
    const LinearProgram program = optimised(kernel, opts);
    ASSERT_EQ(in_line(kernel, program), plainly) << to_text(opts) << "\n" << program.text();
    if (round % 4 != 0) continue;
    Memory there = memory_for(kernel);
    program_for(Device::get("CPU"), with_opts(kernel, opts))->run(arguments_of(there), {});
    ASSERT_EQ(there, plainly) << to_text(opts) << "\n" << program.text();
  }
}

TEST_P(OptCases, ChosenOptsComputeTheSame) {
  const UOp kernel = parse(GetParam().text);
  const Memory plainly = by_interp(kernel);
  const LinearProgram program = optimised(kernel, {});
  EXPECT_EQ(in_line(kernel, program), plainly) << program.text();
}

INSTANTIATE_TEST_SUITE_P(Kernels, OptCases, testing::ValuesIn(kCases), [](const auto& given) {
  std::string name = given.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

TEST(Opt, Text) {
  const Opts opts = parse_opts(" UPCAST(0, 8) UNROLL(2,4)  NOLOCALS SWAP( 0 , 1 )");
  EXPECT_EQ(to_text(opts), "UPCAST(0, 8) UNROLL(2, 4) NOLOCALS SWAP(0, 1)");
  EXPECT_TRUE(parse_opts("").empty());
  for (const char* wrong : {"UPCAST", "UPCAST(0)", "UPCAST(0, x)", "UPCAST(0, -1)", "UPKAST(0, 1)",
                            "UPCAST(0, 1", "(", "UPCAST(,)", "UPCAST(0, 99999999999999999999)", ","})
    EXPECT_THROW((void)parse_opts(wrong), Error) << wrong;
}

std::string refusal(const char* kernel, const char* opts) {
  try {
    (void)lower_to_program(with_opts(parse(kernel), parse_opts(opts)), with_vectors());
  } catch (const Error& e) {
    return e.what();
  }
  return "it applies";
}

TEST(Opt, WhyItDoesNotApply) {
  const char* matmul = kCases[2].text;
  EXPECT_THAT(refusal(matmul, "UPCAST(0, 3)"), HasSubstr("3 does not divide the 8 steps of loop 0"));
  EXPECT_THAT(refusal(matmul, "UPCAST(2, 3)"), HasSubstr("loop 2 is that of a reduce"));
  EXPECT_THAT(refusal(matmul, "UNROLL(0, 2)"), HasSubstr("loop 0 is that of an output"));
  EXPECT_THAT(refusal(matmul, "UNROLL(5, 2)"), HasSubstr("2 loops over outputs and 1 of reduces"));
  EXPECT_THAT(refusal(matmul, "UPCAST(0, 0) UPCAST(0, 2)"), HasSubstr("nothing is left of loop 0"));
  EXPECT_THAT(refusal(matmul, "LOCAL(0, 2)"), HasSubstr("no workgroups"));
  EXPECT_THAT(refusal(matmul, "THREAD(2, 4)"), HasSubstr("loop 2 is that of a reduce"));
  EXPECT_THAT(refusal(matmul, "BLOCK(2, 0)"), HasSubstr("all of loop 2 would be one block"));
  EXPECT_THAT(refusal(kCases[8].text, "BLOCK(1, 4)"), HasSubstr("loop 1 is that of several reduces"));
  EXPECT_THAT(refusal(kCases[11].text, "BLOCK(2, 1) BLOCK(3, 1)"), HasSubstr("another loop of a reduce"));
  EXPECT_THAT(refusal(kCases[19].text, "BLOCK(2, 4)"), HasSubstr("loop 2 is inside of another reduce"));
  EXPECT_THAT(refusal(matmul, "BLOCK(1, 4) BLOCK(1, 2)"), HasSubstr("loop 1 has blocks already"));
  EXPECT_THAT(refusal(matmul, "BLOCK(1, 4) THREAD(1, 2)"), HasSubstr("threads are outside"));
  EXPECT_THAT(refusal(matmul, "PACK(1, 0)"), HasSubstr("argument 0 is not read"));
  EXPECT_THAT(refusal(matmul, "PACK(7, 1)"), HasSubstr("there is no loop 7"));
  EXPECT_THAT(refusal(matmul, "PADTO(0, 0)"), HasSubstr("multiple of 1 or more"));
  EXPECT_THAT(refusal(matmul, "PADTO(0, 99999)"), HasSubstr("too much"));
  EXPECT_THAT(refusal(matmul, "UPCAST(0, 0) UPCAST(1, 0) UNROLL(2, 0)"), HasSubstr("more than"));
  EXPECT_THAT(refusal(R"(%p = PARAM(; 0):float32*[9]
      SINK(END(STORE(INDEX(%p, r0[8] + 1), INDEX(%p, r0):float32), r0)))",
                      "UPCAST(0, 2)"),
              HasSubstr("memory that it writes"));
}

TEST(Opt, AMatmulIsATileInRegisters) {
  const LinearProgram p =
      optimised(parse(kCases[2].text), parse_opts("UPCAST(1, 8) UPCAST(1, 0) UPCAST(0, 4)"));
  EXPECT_EQ(count(p, Op::RANGE), 2);  // rows, and the reduce
  EXPECT_EQ(count(p, Op::DEFINE_REG), 8);
  EXPECT_EQ(count(p, Op::MULACC), 8);
  // in the loop 4 of a and 2 of b, and the accumulators once in it and once behind it
  EXPECT_EQ(count(p, Op::LOAD), 4 + 2 + 2 * 8);
  for (const UOp& u : p.list)
    if (u.op() == Op::MULACC) EXPECT_EQ(u.dtype(), dtypes::float32.vec(8));
}

TEST(Opt, WhatIsPackedIsReadInOrder) {
  const LinearProgram p =
      optimised(parse(kCases[2].text), parse_opts("BLOCK(1, 8) PACK(1, 2) UPCAST(1, 8) UPCAST(0, 4)"));
  // blocks; the copying over the reduce; rows and the reduce
  EXPECT_EQ(count(p, Op::RANGE), 4);
  EXPECT_EQ(count(p, Op::DEFINE_LOCAL), 1);
  for (const UOp& u : p.list) {
    if (u.op() == Op::DEFINE_LOCAL) EXPECT_EQ(u.dtype().size(), 12 * 8);
    // the copy is written and read in vectors
    if (u.op() == Op::LOAD && storage_of(u.src(0)).op() == Op::DEFINE_LOCAL) EXPECT_EQ(u.dtype().lanes(), 8);
    if (u.op() == Op::STORE && storage_of(u.src(0)).op() == Op::DEFINE_LOCAL)
      EXPECT_EQ(u.src(1).dtype().lanes(), 8);
  }
}

TEST(Opt, AReduceInBlocksKeepsItsSums) {
  const LinearProgram p = optimised(
      parse(kCases[2].text),
      parse_opts("BLOCK(1, 8) BLOCK(2, 4) BLOCK(0, 4) PACK(2, 2) PACK(0, 1) UPCAST(1, 8) UPCAST(0, 2)"));
  // blocks of columns, of the reduce, and of rows; rows and the reduce, once for each copy and once for the
  // product; rows of the result
  EXPECT_EQ(count(p, Op::RANGE), 3 + 1 + 2 + 2 + 2);
  Ints sizes;
  for (const UOp& u : p.list)
    if (u.op() == Op::DEFINE_LOCAL) sizes.push_back(u.dtype().size());
  std::ranges::sort(sizes);
  EXPECT_EQ(sizes, (Ints{4 * 4, 4 * 8, 8 * 8}));  // of rows, of columns, and the sums
}

// A softmax computes each exponential once, and the row goes through LOCAL memory.
TEST(Opt, CostlyRowsAreKept) {
  const LinearProgram p = linearize(lower_to_program(parse(kCases[5].text), with_vectors(), OptChoice::best));
  EXPECT_EQ(count(p, Op::DEFINE_LOCAL), 1);
  const LinearProgram as_given = linearize(lower_to_program(parse(kCases[5].text), with_vectors()));
  EXPECT_EQ(count(as_given, Op::DEFINE_LOCAL), 0);
}

// The loop has no masks; what is left does.
TEST(Opt, TheLastStepOfAPaddedLoopIsApart) {
  const LinearProgram p = optimised(parse(kCases[7].text), parse_opts("PADTO(0, 8) UPCAST(0, 8)"));
  int masks = 0, plain_stores = 0;
  for (const UOp& u : p.list)
    if (u.op() == Op::STORE) (u.src().size() == 3 ? masks : plain_stores)++;
  EXPECT_EQ(masks, 1);
  EXPECT_EQ(plain_stores, 1);
}

TEST(Opt, PaddedLanesHaveAMask) {
  const LinearProgram p = optimised(parse(R"(
      SINK(END(STORE(INDEX(PARAM(; 0):float32*[70], r0[10] * 7 + r1[7]), INDEX(PARAM(; 1):float32*[70], r0 * 7 + r1):float32 * INDEX(PARAM(; 2):float32*[10], r0):float32), r0, r1)))"),
                                    parse_opts("PADTO(1, 8) UPCAST(1, 8)"));
  int masks = 0;
  for (const UOp& u : p.list)
    masks += (u.op() == Op::LOAD || u.op() == Op::STORE) && u.src().size() == 3 ? 1 : 0;
  EXPECT_EQ(masks, 2);
  EXPECT_EQ(count(p, Op::IF), 0);
}

// Vectors that are wider than those of the hardware, most of whose lanes are outside of memory that ends (or
// begins) at a page that nobody may touch.
TEST(Opt, WideMasksTouchNothingElse) {
  const env::Override guard("GUARD", 1);
  const env::Override opts("OPTS", "PADTO(1, 32) UPCAST(1, 0)");
  for (int i = 0; i < 2; i++) {
    const Tensor x =
        Tensor::from(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}, Shape{3, 3}, {.device = "CPU"});
    const Tensor y = x.pad({0, 0, 2, 1}).contiguous();
    EXPECT_THAT(y.to_vector<int32_t>(),
                testing::ElementsAre(0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0));
  }
}

TEST(Opt, SiblingsAreUnrolledAlike) {
  const LinearProgram p = optimised(parse(kCases[4].text), parse_opts("UNROLL(2, 8) UPCAST(1, 8)"));
  int vectors = 0;
  for (const UOp& u : p.list)
    if (u.op() == Op::LOAD && u.dtype().lanes() == 8 && storage_of(u.src(0)).op() == Op::PARAM) vectors++;
  EXPECT_EQ(vectors, 3);
  EXPECT_EQ(p.opts, (Texts{"UNROLL(2, 8)", "UPCAST(1, 8)"}));
}

// The second output has none of the loops that the heuristic would put into blocks.
TEST(Opt, ChosenOptsThatDoNotApplyAreLeftOut) {
  const UOp kernel = parse(R"(
      %a = INDEX(PARAM(; 1):float32*[4096], r0[64] * 64 + r2[64, REDUCE]):float32
      %b = INDEX(PARAM(; 2):float32*[524288], r2 * 8192 + r1[8192]):float32
      %product = END(STORE(INDEX(PARAM(; 0):float32*[524288], r0 * 8192 + r1), REDUCE(%a * %b, r2; {op: ADD})), r0, r1)
      SINK(%product, END(STORE(INDEX(PARAM(; 3):float32*[5], r3[5]), 1.0:float32), r3)))");
  DeviceSpec spec = with_vectors();
  spec.parallel.cores = 4;
  EXPECT_NO_THROW((void)lower(kernel, spec, OptChoice::best));
}

TEST(Opt, FromTheEnvironment) {
  const UOp kernel = parse(kCases[0].text);
  const env::Override opts("OPTS", "UPCAST(1, 4)");
  EXPECT_EQ(lower(kernel, with_vectors(), OptChoice::best).opts, Texts{"UPCAST(1, 4)"});
  EXPECT_TRUE(lower(kernel, with_vectors()).opts.empty());
  const env::Override off("NOOPT", 1);
  EXPECT_TRUE(lower(kernel, with_vectors(), OptChoice::best).opts.empty());
}

TEST(Opt, ProgramsAreKeptForWhatIsInForce) {
  const UOp kernel = parse(kCases[0].text);
  Device& device = Device::get("CPU");
  {
    const env::Override opts("OPTS", "UPCAST(1, 4)");
    EXPECT_EQ(program_for(device, kernel)->opts(), Texts{"UPCAST(1, 4)"});
    const env::Override off("NOOPT", 1);
    EXPECT_TRUE(program_for(device, kernel)->opts().empty());
  }
  EXPECT_EQ(program_for(device, kernel), program_for(device, kernel));
}

}  // namespace
}  // namespace quern
