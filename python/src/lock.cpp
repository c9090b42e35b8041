#include "python/src/lock.h"

#include <chrono>
#include <thread>

#include "quern/engine/host.h"

namespace quern::python {

bool has_lock() {
  if (Py_IsInitialized() == 0) return false;  // who ends Python needs no lock, and nobody else gets it
#ifdef Py_LIMITED_API                         // from 3.12 on, where a thread without the lock has no state
  return PyThreadState_GetDict() != nullptr;
#else
  return PyGILState_Check() != 0;
#endif
}

void wait_for_exit() {
  abandon_engine();
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

Locked::Locked() {
  if (Py_IsInitialized() == 0) wait_for_exit();  // Python may have forgotten the thread by now
  state_ = run_python([] { return PyGILState_Ensure(); });
}

}  // namespace quern::python
