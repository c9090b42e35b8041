// Threads that run the parts of one kernel. They wait for the next one awake for a moment, so that starting
// it takes about a microsecond, and asleep after that.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace quern {

class Pool {
 public:
  explicit Pool(int threads);  // the caller's included
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls part(context, i) for every i below count, each once and in any order, and returns when all are
  // done. `part` does not throw. While one caller uses the threads, others do their parts alone. The caller,
  // when it has nothing to do but to wait, calls waiting(context) again and again, if that is given.
  using Part = void (*)(void* context, int64_t i);
  using Waiting = void (*)(void* context);
  void run(int64_t count, Part part, void* context, Waiting waiting = nullptr);

 private:
  void work();
  void take_parts();

  // What is run now. Written by the caller while no worker is inside.
  Part part_ = nullptr;
  void* context_ = nullptr;
  int64_t count_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  alignas(64) std::atomic<uint32_t> job_{0};  // its number: workers wait for another
  alignas(64) std::atomic<int> inside_{0};    // workers that may look at the above
  std::atomic<bool> open_{false}, ends_{false};
  std::atomic<int> asleep_{0};
  std::mutex one_caller_;
  std::vector<std::thread> workers_;
};

// That kernels of the CPU may use: CPU_THREADS, or as many as cores that this process may use.
int64_t threads_to_use();

}  // namespace quern
