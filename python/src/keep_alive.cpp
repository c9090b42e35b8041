// Objects of Python that C++ keeps.
#include <mutex>

#include "python/src/bind.h"
#include "quern/base/fork.h"

namespace quern::python {
namespace {

// Never destroyed: what C++ keeps may outlive everything else.
struct Released {
  ProcessMutex mutex{LockOrder::settings};
  std::vector<PyObject*> objects;
  bool is_asked = false;  // Python was asked to call let_go_later
};
Released& released() {
  static auto* const instance = new Released;  // NOLINT(cppcoreguidelines-owning-memory): see above
  return *instance;
}

int let_go_later(void* /*unused*/) {
  {
    const std::scoped_lock lock(released().mutex);
    released().is_asked = false;
  }
  let_go();
  return 0;
}

}  // namespace

void let_go() {
  std::vector<PyObject*> mine;
  {
    const std::scoped_lock lock(released().mutex);
    mine.swap(released().objects);
  }
  for (PyObject* object : mine) Py_DECREF(object);
}

std::shared_ptr<void> keep_alive(nb::object object) {
  return {object.release().ptr(), [](void* kept) {
            // Not at once: whoever lets go may hold a lock that another thread waits for with Python's lock
            // in hand.
            Released& r = released();
            const std::scoped_lock lock(r.mutex);
            r.objects.push_back(static_cast<PyObject*>(kept));
            if (!r.is_asked && Py_IsInitialized() != 0)
              r.is_asked = Py_AddPendingCall(&let_go_later, nullptr) == 0;
          }};
}

}  // namespace quern::python
