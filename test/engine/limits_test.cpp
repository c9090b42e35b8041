// Large things: they work, or fail with an Error, and in a time that one can wait for.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "quern/base/env.h"
#include "quern/engine/realize/programs.h"
#include "quern/quern.h"
#include "quern/runtime/host/host_memory.h"
#include "test/error_of.h"
#include "test/fuzz.h"

namespace quern {
namespace {

using testing::HasSubstr;

// y = y * 0.5 + x, or y = max(y * 0.5, x) with an x of another place, and so on: straight code in one loop.
TEST(Limits, KernelsOfAHundredThousandNodes) {
  const int64_t elements = 64, steps = kSanitized ? 5'000 : 50'000;
  const UOp out = UOp::make(Op::PARAM, dtypes::float32.ptr(elements), {}, 0),
            in = UOp::make(Op::PARAM, dtypes::float32.ptr(elements), {}, 1), i = UOp::range(elements, 0);
  auto read = [&](const UOp& at) { return UOp::make(Op::INDEX, dtypes::float32, {in, at}); };
  UOp y = read(i);
  for (int64_t k = 0; k < steps; k++) {
    const UOp x = read((i + k % 64) % elements);
    y = k % 3 == 0 ? max(y * 0.5, x) : y * 0.5 + x;
  }
  const UOp kernel = UOp::sink(UOps{
      UOp::make(Op::END, dtypes::void_,
                {UOp::make(Op::STORE, dtypes::void_, {UOp::make(Op::INDEX, out.dtype(), {out, i}), y}), i})});
  EXPECT_GE(kernel.toposort().size(), static_cast<size_t>(2 * steps));
  std::vector<float> given(elements), result(elements);
  for (size_t e = 0; e < given.size(); e++) given[e] = static_cast<float>(e % 8);
  const env::Override as_written("NOOPT", 1);  // rounded as below
  const std::vector<Argument> arguments{{result.data(), elements * 4}, {given.data(), elements * 4}};
  program_for(Device::get("CPU"), kernel)->run(arguments, {});
  for (int64_t e = 0; e < elements; e++) {
    float want = given[static_cast<size_t>(e)];
    for (int64_t k = 0; k < steps; k++) {
      const float x = given[static_cast<size_t>((e + k % 64) % elements)], half = want * 0.5F;
      want = k % 3 == 0 ? std::max(half, x) : half + x;
    }
    EXPECT_EQ(result[static_cast<size_t>(e)], want) << e;
  }
}

TEST(Limits, ThreeGibibytes) {
  const int64_t rows = 48, columns = int64_t{1} << 26, n = rows * columns;
  if (kSanitized) GTEST_SKIP() << "too slow with a sanitizer";
  if (available_host_bytes() < 3 * n) GTEST_SKIP() << "that much memory is not free";
  // Element i is i % 251, computed from an index that needs 33 bits.
  const TensorOptions options = {.dtype = dtypes::int64, .device = "CPU"};
  const Tensor row = Tensor::arange(static_cast<double>(rows), options).reshape({rows, 1}),
               column = Tensor::arange(static_cast<double>(columns), options).reshape({1, columns});
  const Tensor x = ((row * columns + column) % 251).cast(dtypes::uint8).reshape({n});
  x.realize();
  const std::vector<uint8_t> end = x.shrink({std::pair<Dim, Dim>(n - 4, n)}).to_vector<uint8_t>();
  for (size_t i = 0; i < end.size(); i++)
    EXPECT_EQ(end[i], (static_cast<size_t>(n) - 4 + i) % 251) << "from an offset of more than 32 bits";
  const int64_t whole = n / 251, rest = n % 251;
  EXPECT_EQ(x.cast(dtypes::int64).sum().item<int64_t>(), whole * 251 * 250 / 2 + rest * (rest - 1) / 2);
}

TEST(Limits, AThousandOutputs) {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4}, {}, {.device = "CPU"});
  std::vector<Tensor> all;
  for (int i = 0; i < 1000; i++) all.push_back(x * (i % 10) + i);
  Tensor::realize_all(all);
  for (int i = 0; i < 1000; i++) {
    const auto values = all[static_cast<size_t>(i)].to_vector<float>();
    EXPECT_EQ(values[3], static_cast<float>(4 * (i % 10) + i));
  }
}

TEST(Limits, MoreMemoryThanThereIs) {
  const Tensor kept = Tensor::from<float>({1, 2, 3}, {}, {.device = "CPU"});
  for (const int64_t n : {int64_t{1} << 40, int64_t{1} << 55}) {
    const Tensor huge = Tensor::ones({n}, {.dtype = dtypes::float32, .device = "CPU"}).contiguous();
    EXPECT_THAT(error_of([&] { huge.realize(); }), HasSubstr("out of memory"));
    EXPECT_THAT(error_of([&] { huge.realize(); }), HasSubstr(fmt::format("{} bytes", n * 4))) << "and again";
  }
  EXPECT_NE(error_of([&] { Tensor::ones({int64_t{1} << 62, 8}, {.device = "CPU"}).contiguous().realize(); }),
            "");
  EXPECT_EQ((kept + 1).to_vector<float>(), (std::vector<float>{2, 3, 4})) << "what there was is as it was";
}

TEST(Limits, LessMemoryForTheProcess) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve more addresses than this allows";
  const Tensor small = Tensor::from<float>({1, 2, 3}, {}, {.device = "CPU"});
  (small + 1).realize();
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit most{3UL << 30, 3UL << 30};
    ::setrlimit(RLIMIT_AS, &most);
    const Tensor huge = Tensor::ones({1000 << 20}, {.dtype = dtypes::float32, .device = "CPU"}).contiguous();
    const bool refused = error_of([&] { huge.realize(); }).find("out of memory") != std::string::npos;
    const bool goes_on = (small + 1).to_vector<float>() == std::vector<float>{2, 3, 4};
    ::_exit((refused ? 0 : 1) + (goes_on ? 0 : 2));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace quern
