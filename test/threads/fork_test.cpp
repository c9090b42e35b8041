// Forks while other threads make nodes and compute: the child computes, too.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "quern/tensor/core/tensor.h"

#if defined(__SANITIZE_THREAD__)
#define QUERN_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QUERN_TSAN 1
#endif
#endif

namespace quern {
namespace {

// Of a process that has a minute.
int exit_code(pid_t pid) {
  for (int i = 0; i < 30'000; i++) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return -2;
}

void builds(int n) { (void)(Tensor::arange(n) * n + 1).reshape({n, 1}); }
bool computes(int n) { return Tensor::arange(n).sum().item<int32_t>() == n * (n - 1) / 2; }

TEST(Fork, TheChildComputesWhileThreadsOfTheParentDo) {
#ifdef QUERN_TSAN
  GTEST_SKIP() << "the thread sanitizer has no threads in a forked process";
#endif
  ASSERT_TRUE(computes(10));  // see fork.h: nothing is used for the first time
  builds(10);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++)
    threads.emplace_back([&stop, t] {
      for (int n = 100 + t; !stop; n += 3) t == 0 ? (void)computes(n % 500 + 2) : builds(n);
    });
  std::vector<int> codes;
  for (int i = 0; i < 20; i++) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(computes(50 + i) && computes(10) ? 0 : 1);
    codes.push_back(exit_code(pid));
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(codes, std::vector<int>(20, 0));
  EXPECT_TRUE(computes(77));
}

}  // namespace
}  // namespace quern
