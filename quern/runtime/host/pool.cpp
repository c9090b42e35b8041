#include "quern/runtime/host/pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>

#include "quern/base/env.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quern {
namespace {

constexpr int kTurnsAwake = 4000;  // some tens of microseconds

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Pool::Pool(int threads) {
  workers_.reserve(static_cast<size_t>(threads));
  try {
    for (int i = 1; i < threads; i++) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): there are no more; fewer will do
  }
}

Pool::~Pool() {
  ends_ = true;
  job_.fetch_add(1);
  job_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Pool::work() {
  for (uint32_t seen = 0;;) {
    uint32_t now = job_.load(std::memory_order_acquire);
    for (int turn = 0; now == seen && turn < kTurnsAwake; turn++) {
      pause_briefly();
      now = job_.load(std::memory_order_acquire);
    }
    if (now == seen) {
      asleep_.fetch_add(1);
      job_.wait(seen);
      asleep_.fetch_sub(1);
      continue;
    }
    seen = now;
    if (ends_) return;
    // First inside, then a look whether the job is still open: the caller closes it first, then waits until
    // none is inside.
    inside_.fetch_add(1);
    if (open_) take_parts();
    inside_.fetch_sub(1);
  }
}

void Pool::take_parts() {
  for (int64_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) {
    part_(context_, i);
    done_.fetch_add(1);
  }
}

void Pool::run(int64_t count, Part part, void* context, Waiting waiting) {
  std::unique_lock<std::mutex> alone;
  if (!workers_.empty() && count > 1) alone = std::unique_lock(one_caller_, std::try_to_lock);
  if (!alone.owns_lock()) {
    for (int64_t i = 0; i < count; i++) part(context, i);
    return;
  }
  part_ = part, context_ = context, count_ = count;
  next_ = 0, done_ = 0;
  open_ = true;
  job_.fetch_add(1);
  if (asleep_ > 0) job_.notify_all();
  take_parts();
  for (int turn = 0; done_.load(std::memory_order_acquire) < count;) {
    if (turn < kTurnsAwake) {
      pause_briefly(), turn++;
      continue;
    }
    std::this_thread::yield();
    if (waiting != nullptr) waiting(context);
  }
  open_ = false;
  while (inside_ > 0) pause_briefly();
}

int64_t threads_to_use() {
  if (env::CPU_THREADS() > 0) return env::CPU_THREADS();
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

}  // namespace quern
