// Which of the ranges that are done at once are lanes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "test/codegen/one_core.h"

namespace quern {
namespace {

// Of each size the last step, which is apart, has another number of elements: one, some, nearly all.
TEST(Lanes, StayWhateverTheLastStepIs) {
  for (const int n : {32 * 16 + 1, 32 * 16 + 5, 32 * 16 + 15}) {
    const UOp kernel = parse(fmt::format(
        "SINK(END(STORE(INDEX(PARAM(; 0):float32*[{0}], r0[{0}]), INDEX(PARAM(; 1):float32*[{0}], "
        "r0):float32 * 2.0), r0); {{name: \"e\", opts: [\"PADTO(0, 16)\", \"UPCAST(0, 16)\"]}})",
        n));
    const LinearProgram program = lower(kernel, one_core(), OptChoice::best);
    const auto size = static_cast<size_t>(n);
    std::vector<float> in(size, 3), out(size);
    run_floats(program, {{out.data(), size}, {in.data(), size}});
    EXPECT_EQ(out, std::vector<float>(size, 6));
    int vectors = 0;
    for (const UOp& u : program.list) vectors += u.op() == Op::LOAD && u.dtype().lanes() == 16 ? 1 : 0;
    EXPECT_GE(vectors, 1) << program.text();
  }
}

// Loops of reduces that stand side by side are padded together, as they are unrolled together.
TEST(Lanes, AlongTwoReducesOfOddLength) {
  const UOp kernel = parse(R"ir(
    %x = PARAM(; 1):float32*[210]
    %most = REDUCE(INDEX(%x, r0[10] * 21 + r1[21, REDUCE]):float32, r1; {op: MAX})
    %sum = REDUCE(INDEX(%x, r0 * 21 + r2[21, REDUCE]):float32 - %most, r2; {op: ADD})
    SINK(END(STORE(INDEX(PARAM(; 0):float32*[10], r0), %sum), r0); {name: "r", opts: ["PADTO(1, 8)", "UNROLL(1, 8)"]}))ir");
  const LinearProgram program = lower(kernel, one_core(), OptChoice::best);
  std::vector<float> in(210), out(10);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<float>(i);
  run_floats(program, {{out.data(), out.size()}, {in.data(), in.size()}});
  EXPECT_EQ(out, std::vector<float>(10, -210));  // 0 to 20, less 20 each
  int vectors = 0;
  for (const UOp& u : program.list) vectors += u.op() == Op::LOAD && u.dtype().lanes() == 8 ? 1 : 0;
  EXPECT_GE(vectors, 2) << program.text();
}

}  // namespace
}  // namespace quern
