// PROFILE=1: what a program spent its time on, as a table on stderr when it ends. Off, each of these costs a
// load and a comparison. They may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "quern/base/env.h"

namespace quern::profile {

inline bool is_on() { return env::PROFILE() != 0; }

// A kernel, or a copy, that ran. Kernels of one name on one device are told apart by `kernel`.
struct Run {
  std::string_view name, device;
  uint64_t kernel = 0;
  int64_t times = 1;  // on so many devices
  double seconds = 0;
  int64_t operations = 0, bytes = 0;
};
void add(const Run& run);

// A device holds so many bytes now: the most are kept.
void note_memory(std::string_view device, int64_t bytes);

// A stage or a pass of the compiler, while it lives. Its time is that without the timers that this thread
// makes within.
class Timer {
 public:
  explicit Timer(std::string_view name) {
    if (is_on()) begin(name);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    if (is_running_) end();
  }

 private:
  void begin(std::string_view name);
  void end() noexcept;

  bool is_running_ = false;
  std::string name_ = {};
  Timer* outer_ = nullptr;
  std::chrono::steady_clock::time_point begun_ = {};
  std::chrono::steady_clock::duration nested_ = {};
};

// All so far, and nothing if there is nothing.
std::string report();

// Forgets what there was, and the time from which on the whole is counted.
void reset();

}  // namespace quern::profile
