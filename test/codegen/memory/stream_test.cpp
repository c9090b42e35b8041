// Stores past the caches.
#include <gtest/gtest.h>

#include <algorithm>

#include "quern/codegen/lower.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/text/parse.h"
#include "test/codegen/one_core.h"

namespace quern {
namespace {

int64_t streamed(const LinearProgram& program) { return std::ranges::count_if(program.list, is_streamed); }

TEST(Streams, GoToMemoryThatIsAlignedOrNot) {
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[256], r0[256]), INDEX(PARAM(; 1):float32*[256], r0):float32 "
      "+ "
      "1.0), r0))");
  const LinearProgram program = lower(kernel, with_small_caches(), OptChoice::best);
  EXPECT_GT(streamed(program), 0);
  EXPECT_EQ(streamed(lower(kernel, one_core(), OptChoice::best)), 0) << "the caches hold all of it";
  std::vector<float> in = small_integers(256), out(300);
  for (size_t offset = 0; offset < 20; offset++) {
    std::ranges::fill(out, 100.0F);
    run_floats(program, {{out.data() + offset, 256}, {in.data(), 256}});
    for (size_t i = 0; i < out.size(); i++)
      ASSERT_EQ(out[i], i < offset || i >= offset + 256 ? 100 : in[i - offset] + 1) << i << " at " << offset;
  }
}

TEST(Streams, NotToMemoryThatIsRead) {
  const UOp kernel = parse(
      "%p = PARAM(; 0):float32*[256]\nSINK(END(STORE(INDEX(%p, r0[256]), INDEX(%p, r0):float32 + 1.0), r0))");
  EXPECT_EQ(streamed(lower(kernel, with_small_caches(), OptChoice::best)), 0);
}

TEST(Streams, NotToRowsThatBeginBetweenVectors) {
  const UOp kernel = parse(
      "SINK(END(STORE(INDEX(PARAM(; 0):float32*[2080], r0[32] * 65 + r1[64]), INDEX(PARAM(; "
      "1):float32*[2048], "
      "r0 * 64 + r1):float32), r0, r1))");
  EXPECT_EQ(streamed(lower(kernel, with_small_caches(), OptChoice::best)), 0);
}

}  // namespace
}  // namespace quern
