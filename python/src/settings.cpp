// Devices, environment variables and counters.
#include "python/src/bind.h"
#include "python/src/casters.h"
#include "quern/base/env.h"
#include "quern/engine/realize/realize.h"
#include "quern/engine/realize/schedule_cache.h"
#include "quern/runtime/counters.h"
#include "quern/runtime/device.h"

namespace quern::python {
namespace {

using namespace nb::literals;

nb::object setting(const std::string& name) {
  for (const env::Variable& row : env::detail::rows)
    if (row.name == name)
      return row.kind == env::Kind::text ? nb::object(path_object(env::get_text(name)))
                                         : nb::object(nb::int_(env::get(name)));
  throw ValueError("there is no variable " + name);
}

// Returns what it was. Texts are as os.environ has them, which need not be UTF-8.
nb::object set_setting(const std::string& name, nb::handle value) {
  if (nb::isinstance<nb::str>(value)) {
    const std::string before = env::get_text(name);
    env::set(name, path(value));
    return path_object(before);
  }
  const int64_t before = env::get(name);
  env::set(name, integer(value, "a number or text"));
  return nb::int_(before);
}

struct Counter {
  const char* name;
  std::atomic<int64_t>* value;
};

std::atomic<int64_t>& counter(const std::string& name) {
  static const Counter counters[] = {{"kernels", &GlobalCounters::kernels},
                                     {"operations", &GlobalCounters::operations},
                                     {"bytes", &GlobalCounters::bytes},
                                     {"searches", &GlobalCounters::searches},
                                     {"mem_used", &GlobalCounters::mem_used},
                                     {"mem_peak", &GlobalCounters::mem_peak},
                                     {"nanoseconds", &GlobalCounters::nanoseconds}};
  for (const Counter& c : counters)
    if (name == c.name) return *c.value;
  throw ValueError("there is no counter " + name);
}

}  // namespace

void bind_device(nb::module_& m) {
  m.def("default_device", &default_device);
  m.def("canonical_device", [](const std::string& name) { return Device::canonical(name); }, "name"_a);
  m.def("known_devices", &Device::known);
  m.def(
      "open_device",
      [](const std::string& name) { return without_lock([&] { return Device::get(name).name(); }); },
      "name"_a);
  m.def("device_hardware", [](const std::string& name) { return Device::get(name).hardware(); }, "name"_a);
}

void bind_settings(nb::module_& m) {
  m.def("setting", &setting, "name"_a, "The value of an environment variable of quern's.");
  m.def("setting_names", [] {
    std::vector<std::string> names;
    for (const std::string_view n : env::names()) names.emplace_back(n);
    return names;
  });
  m.def("settings_table", &env::table, "All of them, as text.");
  m.def("set_setting", &set_setting, "name"_a, "value"_a,
        "Sets one, in all threads, and returns what it was.");

  m.def("counter", [](const std::string& name) { return counter(name).load(); });
  m.def("set_counter", [](const std::string& name, int64_t value) { counter(name) = value; });
  m.def("reset_counters", &GlobalCounters::reset);
  m.def("clear_schedule_cache", &clear_schedule_cache);
  m.def("estimate", [](const std::vector<Tensor>& tensors) {
    UOps roots;
    for (const Tensor& t : tensors) roots.push_back(t.uop());
    const Estimate found = estimate(roots);
    return nb::make_tuple(found.kernels, found.operations, found.bytes, found.memory);
  });
}

}  // namespace quern::python
