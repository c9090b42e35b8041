// BEAM on devices: results, what is kept on disk, and what is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "quern/base/env.h"
#include "quern/engine/search/beam.h"
#include "quern/engine/search/measure.h"
#include "quern/quern.h"
#include "quern/runtime/cache/disk_cache.h"
#include "quern/runtime/counters.h"
#include "test/engine/searched_kernel.h"
#include "test/runtime/temporary_folder.h"

namespace quern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The first is measured although no time is left.
TEST(Beam, NoTimeIsLeft) {
  Device& device = Device::get("CPU");
  if (device.hardware().empty()) GTEST_SKIP() << "no LLVM";
  DeviceMeasurer measurer(device, matmul_kernel(), {.seconds = 0});
  std::vector<Candidate> first(1), more = {{{kGood}, Candidate::kNever, ""}};
  measurer.measure(first, Candidate::kNever);
  EXPECT_THAT(first[0].dropped, IsEmpty());
  EXPECT_LT(first[0].seconds, 10);
  measurer.measure(more, first[0].seconds);
  EXPECT_THAT(more[0].dropped, HasSubstr("no time was left"));
}

TEST(Beam, WhatIsTooLongOrTheSameIsDropped) {
  Device& device = Device::get("CPU");
  if (device.hardware().empty()) GTEST_SKIP() << "no LLVM";
  DeviceMeasurer measurer(device, matmul_kernel(), {.instructions = 60});
  std::vector<Candidate> all(3);
  measurer.measure(all, 1);
  EXPECT_EQ(std::ranges::count(all, "the same program as another", &Candidate::dropped), 2);
  std::vector<Candidate> wrong(2);
  wrong[0].opts = parse_opts("UPCAST(9, 4)");
  wrong[1].opts = parse_opts("UPCAST(0, 16) UPCAST(1, 16)");
  measurer.measure(wrong, 1);
  EXPECT_THAT(wrong[0].dropped, HasSubstr("does not apply"));
  EXPECT_EQ(wrong[1].dropped, "more than 60 instructions");
  DeviceMeasurer impatient(device, matmul_kernel(), {.compile_seconds = 0});
  std::vector<Candidate> slow(1);
  impatient.measure(slow, 1);
  EXPECT_EQ(slow[0].dropped, "more than 0 s to compile");
}

// A little of everything on integers, that have the same sums in any order.
std::vector<int64_t> results(const std::string& device, int64_t beam) {
  const Tensor count = Tensor::arange(24 * 40, {.dtype = dtypes::float32, .device = device});
  const Tensor x = (count % 7 - 3).reshape({24, 40}).realize(),
               y = (count % 5 - 2).reshape({40, 24}).realize();
  const Tensor where = (y.transpose() + 2).cast(dtypes::int32).contiguous().realize();
  const Tensor weight = y.reshape({-1}).shrink_to({36}).reshape({2, 2, 3, 3}).contiguous().realize();
  const env::Override width("BEAM", beam);
  std::vector<Tensor> all = {x.matmul(y)};
  if (device != "CL") {  // its compiler is slow
    all.push_back(x.pad({0, 3, 1, 2}).max({1}) + x.gather(1, where).sum());
    all.push_back(x.reshape({1, 2, 12, 40}).conv2d(weight, std::nullopt, {.padding = {1}}));
    Tensor z = x.contiguous();
    z.assign(z + x.transpose().reshape({24, 40}));
    all.push_back(z);
  }
  std::vector<int64_t> values;
  for (const Tensor& t : all)
    for (const float v : t.to_vector<float>()) values.push_back(static_cast<int64_t>(v));
  return values;
}

class BeamOn : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      (void)Device::get(GetParam());
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

TEST_P(BeamOn, ResultsAreTheSame) {
  const TemporaryFolder temporary;
  const env::Override folder("QUERN_CACHE_DIR", temporary.path()), seconds("BEAM_SECONDS", 1);
  forget_searches();
  const int64_t before = GlobalCounters::searches;
  std::vector<int64_t> expected;
  {
    const env::Override noopt("NOOPT", 1);
    expected = results(GetParam(), 2);
  }
  EXPECT_EQ(GlobalCounters::searches, before);
  EXPECT_EQ(results(GetParam(), 2), expected);
  const int64_t searched = GlobalCounters::searches - before;
  const bool has_times = !Device::get(GetParam()).hardware().empty();
  EXPECT_EQ(searched > 0, has_times) << "on interpreters BEAM is ignored";
  EXPECT_EQ(results(GetParam(), 2), expected);
  EXPECT_EQ(GlobalCounters::searches - before, searched) << "once in a process";
}
INSTANTIATE_TEST_SUITE_P(Search, BeamOn, testing::Values("CPU", "CL", "LINEAR", "INTERP"));

TEST(Beam, SymbolicSizes) {
  if (Device::get(Device::default_name()).hardware().empty()) GTEST_SKIP() << "no LLVM";
  const TemporaryFolder temporary;
  const env::Override folder("QUERN_CACHE_DIR", temporary.path()), seconds("BEAM_SECONDS", 1),
      beam("BEAM", 1);
  const Tensor x = Tensor::arange(64 * 16, {.dtype = dtypes::float32}).reshape({64, 16}).realize();
  const int64_t before = GlobalCounters::searches;
  for (const int64_t n : {5, 64, 1}) {
    const Dim rows = Variable("n", 1, 64).bind(n);
    const int64_t expected = n * 16 * (n * 16 - 1) / 2;
    EXPECT_EQ(x.shrink_to({rows, 16}).sum().item<float>(), static_cast<float>(expected));
  }
  EXPECT_LE(GlobalCounters::searches - before, 2) << "once for all sizes";
}

// ---- what is kept

class BeamOnDisk : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::get("CPU").hardware().empty()) GTEST_SKIP() << "no LLVM";
  }
  // Searches that were made for this kernel, as if in a new process.
  int64_t searches(std::optional<Opts>* found = nullptr) {
    forget_searches();
    const int64_t before = GlobalCounters::searches;
    const std::optional<Opts> opts = searched_opts(Device::get("CPU"), matmul_kernel());
    EXPECT_TRUE(opts);
    if (found != nullptr) *found = opts;
    return GlobalCounters::searches - before;
  }
  std::string file() const {
    return folder_ / DiskCache::file_of(search_key(Device::get("CPU"), matmul_kernel()));
  }

  const TemporaryFolder folder_;
  const env::Override on_{"CACHE", 1}, place_{"QUERN_CACHE_DIR", folder_.path()}, seconds_{"BEAM_SECONDS", 0};
  const env::Override beam_{"BEAM", 1};
};

TEST_F(BeamOnDisk, IsReadByTheNextProcess) {
  std::optional<Opts> first, second;
  EXPECT_EQ(searches(&first), 1);
  EXPECT_TRUE(std::filesystem::exists(file()));
  EXPECT_EQ(searches(&second), 0);
  EXPECT_EQ(first, second);
  const env::Override wider("BEAM", 2);
  EXPECT_EQ(searches(), 1) << "another width is another search";
}

TEST_F(BeamOnDisk, WhatIsDamagedIsSearchedAgain) {
  EXPECT_EQ(searches(), 1);
  {
    std::fstream damaged(file(), std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(-1, std::ios::end);
    damaged.put('\x7f');
  }
  EXPECT_EQ(searches(), 1);
  EXPECT_EQ(searches(), 0);
  for (const char* wrong : {"", "opts: UPCAST(", "opts: UPCAST(7, 4)", "something else"}) {
    DiskCache::get()->store(search_key(Device::get("CPU"), matmul_kernel()), wrong);
    EXPECT_EQ(searches(), 1) << wrong;
  }
}

TEST_F(BeamOnDisk, IsNotUsedWhereItIsOff) {
  Device& cpu = Device::get("CPU");
  EXPECT_FALSE(searched_opts(cpu, with_opts(matmul_kernel(), {kGood}))) << "opts are given";
  EXPECT_FALSE(searched_opts(Device::get("INTERP"), matmul_kernel()));
  EXPECT_FALSE(searched_opts(Device::get("NULL"), matmul_kernel()));
  {
    const env::Override off("BEAM", 0);
    EXPECT_FALSE(searched_opts(cpu, matmul_kernel()));
  }
  {
    const env::Override noopt("NOOPT", 1);
    EXPECT_FALSE(searched_opts(cpu, matmul_kernel()));
  }
  const env::Override opts("OPTS", "UPCAST(1, 4)");
  EXPECT_FALSE(searched_opts(cpu, matmul_kernel()));
}

TEST_F(BeamOnDisk, IsToldByLevel) {
  const auto told = [&](int64_t level) {
    forget_searches();
    std::filesystem::remove(file());
    const env::Override debug("DEBUG", level);
    testing::internal::CaptureStderr();
    (void)searched_opts(Device::get("CPU"), matmul_kernel());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told(0), IsEmpty()) << "no bar in a pipe";
  EXPECT_THAT(told(1), AllOf(HasSubstr("beam "), HasSubstr("candidates in"), Not(HasSubstr("UPCAST"))));
  const env::Override seconds("BEAM_SECONDS", 1);
  EXPECT_THAT(told(2), AllOf(HasSubstr("<- taken"), HasSubstr("<- the heuristic's"), HasSubstr("UPCAST")));
}

}  // namespace
}  // namespace quern
