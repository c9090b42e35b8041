// Opts that the user gives to a kernel: contiguous(opts), and a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "quern/base/env.h"
#include "quern/quern.h"
#include "test/error_of.h"

namespace quern {
namespace {

using testing::HasSubstr;
using testing::Not;

Tensor matrix() { return Tensor::arange(64 * 32, {.device = "CPU"}).reshape({64, 32}).cast(dtypes::float32); }

// What DEBUG=2 prints of the kernels that run.
std::string kernels_of(const Tensor& x) {
  const env::Override debug("DEBUG", 2);
  testing::internal::CaptureStderr();
  x.realize();
  return testing::internal::GetCapturedStderr();
}

TEST(GivenOpts, OfContiguousAreThoseOfItsKernel) {
  const Tensor x = matrix().contiguous().realize();
  const Tensor y = (x * 2.0 + 1.0).contiguous("UPCAST(0, 4) UPCAST(0, 2)");
  EXPECT_THAT(kernels_of(y), HasSubstr("UPCAST(0, 4) UPCAST(0, 2)"));
  EXPECT_EQ(y.to_vector<float>(), (x * 2.0 + 1.0).to_vector<float>());
}

TEST(GivenOpts, OfSomethingInTheMiddle) {
  const Tensor x = matrix().contiguous().realize();
  const Tensor y = (x * 2.0).sum(1).contiguous("UNROLL(1, 8)").exp2().sum();
  const std::string kernels = kernels_of(y);
  EXPECT_EQ(kernels.find("UNROLL(1, 8)"), kernels.rfind("UNROLL(1, 8)")) << kernels;
  EXPECT_THAT(kernels, HasSubstr("UNROLL(1, 8)"));
}

TEST(GivenOpts, OfSomethingThatIsAssigned) {
  const Tensor x = matrix().contiguous().realize(),
               y = Tensor::zeros({64, 32}, {.device = "CPU"}).contiguous().realize();
  y.assign((x + 1.0).contiguous("UPCAST(0, 4)"));
  EXPECT_THAT(kernels_of(y), HasSubstr("UPCAST(0, 4)"));
  EXPECT_EQ(y.to_vector<float>(), (x + 1.0).to_vector<float>());
}

TEST(GivenOpts, SurviveContiguousAroundThem) {
  const Tensor x = matrix().contiguous().realize();
  EXPECT_THAT(kernels_of((x * 3.0).contiguous("UPCAST(0, 2)").contiguous()), HasSubstr("UPCAST(0, 2)"));
}

TEST(GivenOpts, OfWhatIsInMemoryAreThoseOfACopy) {
  const Tensor x = matrix().contiguous().realize(), y = x.contiguous("UPCAST(0, 4)");
  EXPECT_THAT(kernels_of(y), HasSubstr("UPCAST(0, 4)"));
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
}

TEST(GivenOpts, HaveGradients) {
  const Tensor x = matrix().contiguous().realize().set_requires_grad();
  (x * x).contiguous("UPCAST(0, 4)").sum().backward();
  EXPECT_EQ(x.grad()->to_vector<float>(), (x.detach() * 2.0).to_vector<float>());
}

TEST(GivenOpts, ThatDoNotApplyAreErrors) {
  const Tensor x = matrix().contiguous().realize();
  EXPECT_THAT(error_of([&] { (x + 2.0).contiguous("UPCAST(0, 7)").realize(); }), HasSubstr("UPCAST(0, 7)"));
  EXPECT_THAT(error_of([&] { (x + 2.0).contiguous("UPCAST(9, 2)").realize(); }), HasSubstr("UPCAST(9, 2)"));
  EXPECT_THAT(error_of([&] { (x + 2.0).contiguous("FASTER(1)").realize(); }), HasSubstr("FASTER"));
  EXPECT_THAT(error_of([&] { (x + 2.0).contiguous("UPCAST(").realize(); }), HasSubstr("UPCAST("));
}

class OptsFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("opts_" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(const std::string& text) { std::ofstream(path_) << text; }
  std::string opts() const { return "@" + path_.string(); }

  std::filesystem::path path_;
};

TEST_F(OptsFile, HasOptsByTheNamesOfKernels) {
  write("# a comment\n\ne_64_32: UPCAST(0, 2) UPCAST(0, 4)\r\nr_7: UPCAST(0, 7)\n");
  const env::Override given("OPTS", opts());
  const Tensor x = matrix().contiguous().realize();
  EXPECT_THAT(kernels_of(x * 5.0 + 3.0), HasSubstr("UPCAST(0, 2) UPCAST(0, 4)"));
  const Tensor chosen = x.sum(1);
  EXPECT_THAT(kernels_of(chosen), Not(HasSubstr("UPCAST(0, 2)"))) << "of another name: chosen as ever";
  EXPECT_EQ((x * 7.0).contiguous("UPCAST(0, 2)").to_vector<float>().back(), 2047 * 7);
}

TEST_F(OptsFile, IsReadWithCare) {
  const Tensor x = matrix().contiguous().realize();
  const env::Override given("OPTS", opts());
  EXPECT_THAT(error_of([&] { (x + 11.0).realize(); }), HasSubstr("cannot be read"));
  std::filesystem::create_directory(path_);
  EXPECT_THAT(error_of([&] { (x + 11.0).realize(); }), HasSubstr("cannot be read"));
  std::filesystem::remove(path_);
  write("e_64_32 UPCAST(1, 2)\n");
  EXPECT_THAT(error_of([&] { (x + 12.0).realize(); }), HasSubstr(":1: expected the name of a kernel"));
  write("\ne_64_32: UPCAST(x)\n");
  EXPECT_THAT(error_of([&] { (x + 13.0).realize(); }), HasSubstr(":2: "));
  write("e_64_32: UPCAST(0, 5)\n");
  EXPECT_THAT(error_of([&] { (x + 14.0).realize(); }), HasSubstr("UPCAST(0, 5)"));
}

}  // namespace
}  // namespace quern
