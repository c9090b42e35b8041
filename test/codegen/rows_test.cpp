// What is done to go along memory: stores past the caches, rows fetched ahead, squares that are transposed,
// sums of rows.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quern/codegen/choose/actions.h"
#include "quern/codegen/loops/sum_rows.h"
#include "quern/codegen/lower.h"
#include "quern/codegen/memory/addresses.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/device.h"
#include "test/codegen/kernels.h"

namespace quern {
namespace {

DeviceSpec spec() {
  DeviceSpec spec = Device::get("CPU").spec();
  spec.parallel.cores = 1;
  return spec;
}
DeviceSpec small_caches() {
  DeviceSpec small = spec();
  small.memory.l3_bytes = 1;
  return small;
}

void run(const LinearProgram& program, const std::vector<std::pair<float*, size_t>>& arrays) {
  std::vector<Argument> arguments;
  for (const auto& [data, size] : arrays)
    arguments.push_back({data, static_cast<int64_t>(size * sizeof(float))});
  Device::get("CPU").compile(program)->run(arguments, {});
}

int64_t streamed(const LinearProgram& program) { return std::ranges::count_if(program.list, is_streamed); }

// Small whole numbers, whose sums are exact.
std::vector<float> numbers(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; i++) values[i] = static_cast<float>((i * 7919) % 23) - 11;
  return values;
}

TEST(Streams, GoToMemoryThatIsAlignedOrNot) {
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[256], r0[256]), INDEX(PARAM(; 1):float32*[256], r0):float32 "
      "+ "
      "1.0), r0))");
  const LinearProgram program = lower(kernel, small_caches(), OptChoice::best);
  EXPECT_GT(streamed(program), 0);
  EXPECT_EQ(streamed(lower(kernel, spec(), OptChoice::best)), 0) << "the caches hold all of it";
  std::vector<float> in = numbers(256), out(300);
  for (size_t offset = 0; offset < 20; offset++) {
    std::ranges::fill(out, 100.0F);
    run(program, {{out.data() + offset, 256}, {in.data(), 256}});
    for (size_t i = 0; i < out.size(); i++)
      ASSERT_EQ(out[i], i < offset || i >= offset + 256 ? 100 : in[i - offset] + 1) << i << " at " << offset;
  }
}

TEST(Streams, NotToMemoryThatIsRead) {
  const UOp kernel = parse(
      "%p = PARAM(; 0):float32*[256]\nSINK(END(STORE(INDEX(%p, r0[256]), INDEX(%p, r0):float32 + 1.0), r0))");
  EXPECT_EQ(streamed(lower(kernel, small_caches(), OptChoice::best)), 0);
}

TEST(Streams, NotToRowsThatBeginBetweenVectors) {
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[2080], r0[32] * 65 + r1[64]), INDEX(PARAM(; "
      "1):float32*[2048], "
      "r0 * 64 + r1):float32), r0, r1))");
  EXPECT_EQ(streamed(lower(kernel, small_caches(), OptChoice::best)), 0);
}

// Each row less the sum of it, by a kernel that goes over a row twice.
constexpr const char* kLessItsSum = R"(
    %p = PARAM(; 1):float32*[32768]
    %s = REDUCE(INDEX(%p, r0[64] * 512 + r1[512, REDUCE]):float32, r1; {op: ADD})
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[32768], r0 * 512 + r2[512]), INDEX(%p, r0 * 512 + r2):float32 - %s), r0, r2)))";

TEST(FetchAhead, TheNextRowWhileThisOneIsReadAgain) {
  DeviceSpec device = spec();
  device.memory.l2_bytes = 32768;
  const LinearProgram program = lower(parse(kLessItsSum), device, OptChoice::best);
  size_t marked = 0, loads = 0;
  for (const UOp& u : program.list) {
    if (u.op() != Op::LOAD || storage_of(u.src(0)).op() != Op::PARAM) continue;
    loads++;
    if (fetched_ahead(u) == 0) continue;
    marked++;
    EXPECT_EQ(fetched_ahead(u), 512);
  }
  EXPECT_GT(marked, 0U) << program.text();
  // half of them in the second loop, and there one for each line
  EXPECT_EQ(marked * 2 * static_cast<size_t>(std::max<int64_t>(1, 64 / device.parallel.vector_bytes)), loads)
      << program.text();

  const std::vector<float> in = numbers(32768);
  std::vector<float> out(32768);
  run(program, {{out.data(), out.size()}, {const_cast<float*>(in.data()), in.size()}});
  for (size_t row = 0; row < 64; row++) {
    float sum = 0;
    for (size_t i = 0; i < 512; i++) sum += in[row * 512 + i];
    for (size_t i = 0; i < 512; i++)
      ASSERT_EQ(out[row * 512 + i], in[row * 512 + i] - sum) << row << ", " << i;
  }
}

TEST(FetchAhead, NotWhatTheCachesHold) {
  DeviceSpec device = spec();
  device.memory.l2_bytes = 1 << 20;
  for (const UOp& u : lower(parse(kLessItsSum), device, OptChoice::best).list) EXPECT_EQ(fetched_ahead(u), 0);
}

TEST(FetchAhead, NotRowsThatAreLongerThanTheCaches) {
  DeviceSpec device = spec();
  device.memory.l2_bytes = 4096;
  for (const UOp& u : lower(parse(kLessItsSum), device, OptChoice::best).list) EXPECT_EQ(fetched_ahead(u), 0);
}

TEST(TransposedLoads, AreVectors) {
  for (const auto& [rows, columns] : {std::pair{64, 32}, {16, 48}, {128, 24}, {33, 65}, {8, 8}}) {
    const int n = rows * columns;
    const UOp kernel =
        parse(fmt::format("SINK(END(STORE(INDEX(PARAM(; 0):float32*[{0}], r0[{2}] * {1} + r1[{1}]), "
                          "INDEX(PARAM(; 1):float32*[{0}], r1 * {2} + r0):float32), r0, r1))",
                          n, rows, columns));
    const auto size = static_cast<size_t>(n);
    for (const DeviceSpec& device : {spec(), small_caches()}) {
      const LinearProgram program = lower(kernel, device, OptChoice::best);
      std::vector<float> in(size), out(size);
      for (size_t i = 0; i < size; i++) in[i] = static_cast<float>(i);
      run(program, {{out.data(), size}, {in.data(), size}});
      for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++)
          ASSERT_EQ(out[static_cast<size_t>(c * rows + r)], in[static_cast<size_t>(r * columns + c)])
              << rows << " by " << columns << ": " << r << ", " << c;
      if (rows == 64 && device.parallel.vector_bytes == 32)
        for (const UOp& u : program.list)
          if (u.op() == Op::LOAD) EXPECT_GT(u.dtype().lanes(), 1) << program.text();
    }
  }
}

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
    const LinearProgram program = lower(kernel, spec(), OptChoice::best);
    EXPECT_EQ(count(program, Op::DEFINE_LOCAL), 1) << program.text();
    std::vector<float> in = numbers(static_cast<size_t>(s.rows) * static_cast<size_t>(s.columns)),
                       by = numbers(static_cast<size_t>(s.rows)), out(static_cast<size_t>(s.columns));
    std::vector<std::pair<float*, size_t>> arrays = {{out.data(), out.size()}, {in.data(), in.size()}};
    if (s.by_vector) arrays.emplace_back(by.data(), by.size());
    run(program, arrays);
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
  DeviceSpec two = spec();
  two.parallel.cores = 2;
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[2048], r0[2048]), REDUCE(INDEX(PARAM(; 1):float32*[131072], "
      "r1[64, "
      "REDUCE] * 2048 + r0):float32, r1; {op: ADD})), r0))");
  const std::optional<Optimisable> start = before_opts(kernel, two);
  ASSERT_TRUE(start);
  ASSERT_TRUE(start->program.ops_below().contains(Op::DEFINE_LOCAL));
  std::vector<float> in = numbers(131072), want(2048);
  for (size_t i = 0; i < in.size(); i++) want[i % 2048] += in[i];
  std::vector<Opts> lists = {parse_opts("UPCAST(0, 2)"), parse_opts("PADTO(0, 4) UPCAST(0, 2)")};
  for (uint64_t seed = 0; seed < 40; seed++) lists.push_back(random_opts(start->program, two, seed));
  for (const Opts& opts : lists) {
    std::vector<float> out(2048);
    run(lower(with_opts(kernel, opts), two, OptChoice::searched),
        {{out.data(), out.size()}, {in.data(), in.size()}});
    ASSERT_EQ(out, want) << to_text(opts);
  }
}

TEST(SumRows, RowsAreAddedOneAfterTheOther) {
  DeviceSpec two = spec();
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
  EXPECT_EQ(sum_rows(program, spec()), program);
}

}  // namespace
}  // namespace quern
