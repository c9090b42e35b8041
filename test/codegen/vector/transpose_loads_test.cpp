// Squares that are read across lanes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "test/codegen/one_core.h"

namespace quern {
namespace {

TEST(TransposedLoads, AreVectors) {
  for (const auto& [rows, columns] : {std::pair{64, 32}, {16, 48}, {128, 24}, {33, 65}, {8, 8}}) {
    const int n = rows * columns;
    const UOp kernel =
        parse(fmt::format("SINK(END(STORE(INDEX(PARAM(; 0):float32*[{0}], r0[{2}] * {1} + r1[{1}]), "
                          "INDEX(PARAM(; 1):float32*[{0}], r1 * {2} + r0):float32), r0, r1))",
                          n, rows, columns));
    const auto size = static_cast<size_t>(n);
    for (const DeviceSpec& device : {one_core(), with_small_caches()}) {
      const LinearProgram program = lower(kernel, device, OptChoice::best);
      std::vector<float> in(size), out(size);
      for (size_t i = 0; i < size; i++) in[i] = static_cast<float>(i);
      run_floats(program, {{out.data(), size}, {in.data(), size}});
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

}  // namespace
}  // namespace quern
