// Rows that are gone over twice: the next one is fetched while this one is read again.
#include <gtest/gtest.h>

#include <algorithm>

#include "quern/codegen/lower.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/text/parse.h"
#include "test/codegen/one_core.h"

namespace quern {
namespace {

// Each row less the sum of it, by a kernel that goes over a row twice.
constexpr const char* kLessItsSum = R"(
    %p = PARAM(; 1):float32*[32768]
    %s = REDUCE(INDEX(%p, r0[64] * 512 + r1[512, REDUCE]):float32, r1; {op: ADD})
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[32768], r0 * 512 + r2[512]), INDEX(%p, r0 * 512 + r2):float32 - %s), r0, r2)))";

TEST(FetchAhead, TheNextRowWhileThisOneIsReadAgain) {
  DeviceSpec device = one_core();
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

  const std::vector<float> in = small_integers(32768);
  std::vector<float> out(32768);
  run_floats(program, {{out.data(), out.size()}, {const_cast<float*>(in.data()), in.size()}});
  for (size_t row = 0; row < 64; row++) {
    float sum = 0;
    for (size_t i = 0; i < 512; i++) sum += in[row * 512 + i];
    for (size_t i = 0; i < 512; i++)
      ASSERT_EQ(out[row * 512 + i], in[row * 512 + i] - sum) << row << ", " << i;
  }
}

TEST(FetchAhead, NotWhatTheCachesHold) {
  DeviceSpec device = one_core();
  device.memory.l2_bytes = 1 << 20;
  for (const UOp& u : lower(parse(kLessItsSum), device, OptChoice::best).list) EXPECT_EQ(fetched_ahead(u), 0);
}

TEST(FetchAhead, NotRowsThatAreLongerThanTheCaches) {
  DeviceSpec device = one_core();
  device.memory.l2_bytes = 4096;
  for (const UOp& u : lower(parse(kLessItsSum), device, OptChoice::best).list) EXPECT_EQ(fetched_ahead(u), 0);
}

}  // namespace
}  // namespace quern
