// Objects of Python that C++ keeps.
#include <mutex>

#include "python/src/bind.h"

namespace quern::python {
namespace {

std::mutex mutex;
std::vector<PyObject*> released;
bool is_asked = false;  // Python was asked to call let_go_later

int let_go_later(void* /*unused*/) {
  {
    const std::scoped_lock lock(mutex);
    is_asked = false;
  }
  let_go();
  return 0;
}

}  // namespace

void let_go() {
  std::vector<PyObject*> mine;
  {
    const std::scoped_lock lock(mutex);
    mine.swap(released);
  }
  for (PyObject* object : mine) Py_DECREF(object);
}

std::shared_ptr<void> keep_alive(nb::object object) {
  return {object.release().ptr(), [](void* kept) {
            // Not at once: whoever lets go may hold a lock that another thread waits for with Python's lock
            // in hand.
            const std::scoped_lock lock(mutex);
            released.push_back(static_cast<PyObject*>(kept));
            if (!is_asked && Py_IsInitialized() != 0)
              is_asked = Py_AddPendingCall(&let_go_later, nullptr) == 0;
          }};
}

}  // namespace quern::python
