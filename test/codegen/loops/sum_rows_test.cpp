// Sums across rows that go along them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quern/codegen/choose/actions.h"
#include "quern/codegen/loops/sum_rows.h"
#include "quern/codegen/lower.h"
#include "quern/codegen/memory/addresses.h"
#include "quern/ir/text/parse.h"
#include "test/codegen/kernels.h"
#include "test/codegen/one_core.h"

namespace quern {
namespace {

struct Sum {
  int rows, columns;
  bool by_vector;
  const char* op;
};

TEST(SumRows, ComputesTheSame) {
  for (const Sum& s : {Sum{64, 2048, false, "ADD"},
                       {64, 2048, true, "ADD"},
                       {72, 1024, true, "ADD"},
                       {128, 6144, false, "MAX"},
                       {64, 9216, true, "ADD"}}) {
    const std::string x = fmt::format("INDEX(PARAM(; 1):float32*[{}], r1[{}, REDUCE] * {} + r0[{}]):float32",
                                      s.rows * s.columns, s.rows, s.columns, s.columns);
    const UOp kernel = parse(fmt::format(
        "SINK(END(STORE(INDEX(PARAM(; 0):float32*[{}], r0[{}]), REDUCE({}{}, r1; {{op: {}}}) * 2.0), r0))",
        s.columns, s.columns, x,
        s.by_vector ? fmt::format(" * INDEX(PARAM(; 2):float32*[{}], r1):float32", s.rows) : "", s.op));
    const LinearProgram program = lower(kernel, one_core(), OptChoice::best);
    EXPECT_EQ(count(program, Op::DEFINE_LOCAL), 1) << program.text();
    std::vector<float> in = small_integers(static_cast<size_t>(s.rows) * static_cast<size_t>(s.columns)),
                       by = small_integers(static_cast<size_t>(s.rows)), out(static_cast<size_t>(s.columns));
    std::vector<std::pair<float*, size_t>> arrays = {{out.data(), out.size()}, {in.data(), in.size()}};
    if (s.by_vector) arrays.emplace_back(by.data(), by.size());
    run_floats(program, arrays);
    for (size_t c = 0; c < out.size(); c++) {
      float want = s.op == std::string_view("MAX") ? -INFINITY : 0;
      for (size_t r = 0; r < by.size(); r++) {
        const float value = in[r * out.size() + c] * (s.by_vector ? by[r] : 1);
        want = s.op == std::string_view("MAX") ? std::max(want, value) : want + value;
      }
      ASSERT_EQ(out[c], want * 2) << "column " << c << " of " << s.columns;
    }
  }
}

// Sums that wait in memory: of rows that are added one after the other, for parts of the columns that may be
// done at once.
TEST(SumRows, AnyOptsComputeTheSame) {
  DeviceSpec two = one_core();
  two.parallel.cores = 2;
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[2048], r0[2048]), REDUCE(INDEX(PARAM(; 1):float32*[131072], "
      "r1[64, "
      "REDUCE] * 2048 + r0):float32, r1; {op: ADD})), r0))");
  const std::optional<Optimisable> start = before_opts(kernel, two);
  ASSERT_TRUE(start);
  ASSERT_TRUE(start->program.ops_below().contains(Op::DEFINE_LOCAL));
  std::vector<float> in = small_integers(131072), want(2048);
  for (size_t i = 0; i < in.size(); i++) want[i % 2048] += in[i];
  std::vector<Opts> lists = {parse_opts("UPCAST(0, 2)"), parse_opts("PADTO(0, 4) UPCAST(0, 2)")};
  for (uint64_t seed = 0; seed < 40; seed++) lists.push_back(random_opts(start->program, two, seed));
  for (const Opts& opts : lists) {
    std::vector<float> out(2048);
    run_floats(lower(with_opts(kernel, opts), two, OptChoice::searched),
               {{out.data(), out.size()}, {in.data(), in.size()}});
    ASSERT_EQ(out, want) << to_text(opts);
  }
}

TEST(SumRows, RowsAreAddedOneAfterTheOther) {
  DeviceSpec two = one_core();
  two.parallel.cores = 2;
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[2048], r0[2048]), REDUCE(INDEX(PARAM(; 1):float32*[131072], "
      "r1[64, "
      "REDUCE] * 2048 + r0):float32, r1; {op: ADD})), r0))");
  const UOp program = before_opts(kernel, two)->program;
  const Loops loops = loops_of(program);
  int refused = 0;
  for (size_t i = 0; i < loops.size(); i++) try {
      (void)apply_opts(program, {{OptKind::UPCAST, static_cast<int64_t>(i), 2}}, two);
    } catch (const Error& e) {
      refused += std::string(e.what()).find("write the same place") != std::string::npos ? 1 : 0;
    }
  EXPECT_EQ(refused, 1);
}

TEST(SumRows, LeavesProductsOfMatricesToRegisters) {
  const UOp kernel = parse(
      "%x = INDEX(PARAM(; 1):float32*[4096], r0[64] * 64 + r2[64, REDUCE]):float32 * INDEX(PARAM(; "
      "2):float32*[131072], r2 * 2048 + r1[2048]):float32\n"
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[131072], r0 * 2048 + r1), REDUCE(%x, r2; {op: ADD})), r0, "
      "r1))");
  const UOp program = to_addresses(kernel);
  EXPECT_EQ(sum_rows(program, one_core()), program);
}

}  // namespace
}  // namespace quern
