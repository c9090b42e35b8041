// What DEBUG tells, level by level.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/base/env.h"
#include "quern/quern.h"
#include "test/runtime/temporary_folder.h"

namespace quern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Of kernels that were not compiled yet: products of matrices of that size.
std::string told(int64_t level, int64_t size) {
  const env::Override debug("DEBUG", level);
  testing::internal::CaptureStderr();
  const std::vector<float> ones(static_cast<size_t>(size * size), 1);
  const Tensor x = Tensor::from(ones, Shape{size, size}, {.device = "CPU"});
  x.matmul(x).matmul(x).realize();  // what is between them is kept
  return testing::internal::GetCapturedStderr();
}

TEST(Debug, EachLevelAddsToTheOneBefore) {
  const TemporaryFolder temporary;
  const env::Override on("CACHE", 1), folder("QUERN_CACHE_DIR", temporary.path());
  EXPECT_THAT(told(0, 10), IsEmpty());
  const std::string one = told(1, 11), two = told(2, 12), three = told(3, 13), four = told(4, 14),
                    five = told(5, 15), six = told(6, 16), seven = told(7, 17);
  EXPECT_THAT(one, AllOf(HasSubstr("cache  "), HasSubstr("compiled"), Not(HasSubstr("kernel"))));
  EXPECT_THAT(two, AllOf(HasSubstr("kernel r_12_12"), HasSubstr(" ms "), HasSubstr(" GFLOPS "),
                         HasSubstr(" GB/s "), HasSubstr("mem "), Not(HasSubstr("kept"))));
  EXPECT_THAT(three, AllOf(HasSubstr("kept: "), Not(HasSubstr("void r_14_14"))));
  EXPECT_THAT(four, AllOf(HasSubstr("r_14_14("), Not(HasSubstr("optimised"))));
  EXPECT_THAT(five, AllOf(HasSubstr("scheduled\n"), HasSubstr("optimised\n"), Not(HasSubstr("linear"))));
  EXPECT_THAT(six, AllOf(HasSubstr("linear r_16_16\n"), Not(HasSubstr("registers"))));
  EXPECT_THAT(seven, AllOf(HasSubstr("code r_17_17: "), HasSubstr(" vector and "), HasSubstr("spills: "),
                           HasSubstr(" ret")));
  EXPECT_THAT(seven, Not(HasSubstr("\033["))) << "no colours in a pipe";
}

}  // namespace
}  // namespace quern
