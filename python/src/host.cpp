// Python as the engine's host: its lock, and Ctrl-C.
#include "quern/engine/host.h"

#include <thread>

#include "python/src/bind.h"

namespace quern::python {
namespace {

bool has_lock() {
#ifdef Py_LIMITED_API  // from 3.12 on, where a thread without the lock has no state
  return PyThreadState_GetDict() != nullptr;
#else
  return PyGILState_Check() != 0;
#endif
}

class Python final : public Host {
 public:
  void unlocked(const std::function<void()>& f) override {
    if (!has_lock()) {
      f();
    } else {
      const nb::gil_scoped_release released;
      f();
    }
  }
  void locked(const std::function<void()>& f) override {
    if (has_lock()) {
      f();
    } else {
      const nb::gil_scoped_acquire lock;
      f();
    }
  }

  // Signals are the main thread's: where it is another one, this does nothing.
  void check() override {
    if (std::this_thread::get_id() != main_) return;
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

 private:
  const std::thread::id main_ = std::this_thread::get_id();
};

}  // namespace

void bind_host() {
  static Python* const host = new Python;  // NOLINT: threads may outlive static destruction
  Host::set(host);
}

}  // namespace quern::python
