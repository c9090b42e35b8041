// Python's lock. Once Python ends, a thread that waits for it is ended by Python instead: pthread_exit
// unwinds the stack, and C++ on it would let go of what belongs to Python, or end the process. Such a thread
// waits here for the end of the process.
#pragma once

#include <cxxabi.h>

#include <nanobind/nanobind.h>

#include <utility>

namespace quern::python {

bool has_lock();

[[noreturn]] void wait_for_exit();

// Calls what runs code of Python, which may be ended in it.
template <class F>
auto run_python(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const abi::__forced_unwind&) {
    wait_for_exit();
  }
}

// Until the end of a scope, for a thread that has the lock.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() {
    run_python([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

// Until the end of a scope, for any thread.
class Locked {
 public:
  Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace quern::python
