// Memory of the host: guards, alignment, and what happens when there is no more.
#include "quern/runtime/host/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "quern/base/env.h"
#include "quern/engine/realize/programs.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/buffer.h"
#include "test/fuzz.h"

namespace quern {
namespace {

using testing::HasSubstr;

// One that ends at a guard, and one that begins behind one.
class Guarded : public testing::Test {
 protected:
  Guarded() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (int i = 0; i < 2; i++) {
      auto* memory = static_cast<std::byte*>(device().allocate(kBytes));
      const bool ends = (reinterpret_cast<uintptr_t>(memory) + kBytes) % 4096 == 0;  // NOLINT
      (ends ? ends_ : begins_) = memory;
    }
  }
  ~Guarded() override {
    device().free(ends_, kBytes);
    device().free(begins_, kBytes);
  }
  static Device& device() { return Device::get("CPU"); }

  static constexpr int64_t kBytes = 1000;
  env::Override guard_{"GUARD", 1};
  std::byte *ends_ = nullptr, *begins_ = nullptr;
};

TEST_F(Guarded, AllOfItCanBeUsed) {
  ASSERT_NE(ends_, nullptr);
  ASSERT_NE(begins_, nullptr);
  std::memset(ends_, 1, kBytes);
  std::memset(begins_, 1, kBytes);
}

TEST_F(Guarded, NothingBeyondIt) {
  volatile std::byte *end = ends_ + kBytes, *before = begins_ - 1;
  EXPECT_DEATH(*end = std::byte{1}, "");
  EXPECT_DEATH(*before = std::byte{1}, "");
  EXPECT_DEATH((void)*end, "");
  EXPECT_DEATH((void)*before, "");
}

TEST_F(Guarded, FreedMemoryIsGone) {
  auto* memory = static_cast<volatile std::byte*>(device().allocate(kBytes));
  device().free(const_cast<std::byte*>(memory), kBytes);
  EXPECT_DEATH(*memory = std::byte{1}, "");
}

// The kernel believes in 256 elements; there are 250.
TEST_F(Guarded, KernelsDie) {
  const auto write = program_for(
      device(), parse("SINK(END(STORE(INDEX(PARAM(; 0):float32*[256], r0[256]), 1.0:float32), r0))"));
  const auto read = program_for(device(), parse(R"(
      SINK(STORE(INDEX(PARAM(; 0):float32*[1], 0), REDUCE(INDEX(PARAM(; 1):float32*[256], r0[256, REDUCE]):float32, r0; {op: ADD}))))"));
  float sum = 0;
  EXPECT_DEATH(write->run(std::vector<Argument>{{ends_, 1024}}, {}), "");
  EXPECT_DEATH(read->run(std::vector<Argument>{{&sum, 4}, {ends_, 1024}}, {}), "");
  EXPECT_DEATH(write->run(std::vector<Argument>{{begins_ - 24, 1024}}, {}), "");
}

TEST_F(Guarded, MemoryAllocatedWithGuardsIsNotKeptWithout) {
  void* memory = device().allocate(kBytes);
  const env::Override off("GUARD", 0);
  device().free(memory, kBytes);
  void* second = device().allocate(kBytes);
  EXPECT_FALSE(is_guarded(second));
  device().free(second, kBytes);
}

TEST(HostMemory, Alignment) {
  const env::Override off("GUARD", 0);
  for (const int64_t bytes : {0, 1, 63, 64, 1000, 5 << 20}) {
    void* memory = allocate_host(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0U) << bytes;  // NOLINT
    std::memset(memory, 1, static_cast<size_t>(bytes));
    free_host(memory);
  }
  const env::Override on("GUARD", 1);
  for (int i = 0; i < 2; i++) {
    void* memory = allocate_host(24);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 8, 0U);  // NOLINT
    free_host(memory);
  }
  free_host(allocate_host(0));
  free_host(nullptr);
}

TEST(HostMemory, MoreThanThereIs) {
  EXPECT_EQ(allocate_host(-1), nullptr);
  EXPECT_GT(available_host_bytes(), 1 << 20);
  const int64_t available = available_host_bytes();
  if (available < (int64_t{1} << 50)) EXPECT_EQ(allocate_host(available + (int64_t{1} << 30)), nullptr);
  for (const char* device : {"CPU", "INTERP"}) {
    Buffer huge(Device::get(device), dtypes::float32, int64_t{1} << 45);
    try {
      huge.memory();
      FAIL() << "there is that much memory?";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("out of memory, 140737488355328 bytes were asked for"));
    }
  }
}

// What a process may have is less than what the machine has.
TEST(HostMemory, LimitsOfTheProcess) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve more addresses than this allows";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit most{2UL << 30, 2UL << 30};
    ::setrlimit(RLIMIT_AS, &most);
    std::vector<BufferPtr> all;
    int code = 1;
    try {
      for (int i = 0; i < 100; i++) {
        all.push_back(std::make_shared<Buffer>(Device::get("CPU"), dtypes::uint8, 60 << 20));
        all.back()->memory();
      }
    } catch (const Error& e) {
      code = std::strstr(e.what(), "out of memory") != nullptr && all.size() > 5 ? 0 : 2;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace quern
