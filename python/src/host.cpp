// Python as the engine's host: its lock, and Ctrl-C.
#include "quern/engine/host.h"

#include <thread>

#include "python/src/bind.h"

namespace quern::python {
namespace {

class Python final : public Host {
 public:
  void unlocked(const std::function<void()>& f) override {
    if (!has_lock()) {
      f();
    } else {
      const Unlocked unlocked;
      f();
    }
  }
  void locked(const std::function<void()>& f) override {
    if (has_lock() || is_ending()) {
      f();
    } else {
      const Locked lock;
      f();
    }
  }

  // Signals are the main thread's.
  void check() override {
    if (!is_main() && Py_IsInitialized() == 0) wait_for_exit();
    if (!is_main() || is_ending()) return;
    const Locked lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

 private:
  bool is_main() const { return std::this_thread::get_id() == main_; }
  bool is_ending() const { return is_main() && Py_IsInitialized() == 0; }  // with what it runs now

  const std::thread::id main_ = std::this_thread::get_id();
};

}  // namespace

void bind_host() {
  static Python* const host = new Python;  // NOLINT: threads may outlive static destruction
  Host::set(host);
  if (Py_AtExit(&stop_engine) != 0) throw Error("Python has no place for what quern does when it ends");
}

}  // namespace quern::python
