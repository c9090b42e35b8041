#include "python/src/fork.h"

#include <optional>

#include "python/src/bind.h"
#include "quern/engine/host.h"

namespace quern::python {
namespace {

using namespace nb::literals;

std::optional<std::unique_lock<EngineMutex>> held;  // by the thread that forks

void before() {
  try {
    held = lock_engine();
  } catch (const Error&) {  // a process that cannot compute may fork
    held.reset();
  }
}
void after() { held.reset(); }

}  // namespace

// Not by pthread_atfork: that is called where Python's lock cannot be let go of any more.
void bind_forks() {
  nb::module_::import_("os").attr("register_at_fork")("before"_a = nb::cpp_function(&before),
                                                      "after_in_parent"_a = nb::cpp_function(&after),
                                                      "after_in_child"_a = nb::cpp_function(&after));
}

}  // namespace quern::python
