// Runs a function in several threads that begin at once. All tests that need more than one thread stand in
// this folder: the run under the thread sanitizer builds nothing else.
#pragma once
#include <barrier>
#include <thread>
#include <vector>

namespace quern {

inline constexpr int kThreads = 8;

template <class F>
void in_threads(F f) {
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      f(t);
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace quern
