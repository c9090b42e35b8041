// Devices, environment variables and counters.
#include "python/src/bind.h"
#include "quern/engine/schedule_cache.h"
#include "quern/ir/env.h"
#include "quern/runtime/counters.h"
#include "quern/runtime/device.h"

namespace quern::python {
namespace {

using namespace nb::literals;

nb::object setting(const std::string& name) {
  for (const env::Variable& row : env::detail::rows)
    if (row.name == name)
      return row.kind == env::Kind::text ? nb::object(nb::str(env::get_text(name).c_str()))
                                         : nb::object(nb::int_(env::get(name)));
  throw ValueError("there is no variable " + name);
}

// One that is set until close(): Python's `with` sees to the order.
class Setting {
 public:
  Setting(const std::string& name, nb::handle value) {
    if (nb::isinstance<nb::str>(value))
      override_ = std::make_unique<env::Override>(name, std::string_view(nb::cast<std::string>(value)));
    else
      override_ = std::make_unique<env::Override>(name, nb::cast<int64_t>(value));
  }
  void close() { override_.reset(); }

 private:
  std::unique_ptr<env::Override> override_;
};

}  // namespace

void bind_device(nb::module_& m) {
  m.def("default_device", &default_device);
  m.def("set_default_device", &set_default_device, "name"_a);
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
  nb::class_<Setting>(m, "Setting")
      .def(nb::init<const std::string&, nb::handle>())
      .def("close", &Setting::close);

  struct Counter {
    const char* name;
    std::atomic<int64_t>* value;
  };
  static const Counter counters[] = {
      {"kernels", &GlobalCounters::kernels},   {"operations", &GlobalCounters::operations},
      {"bytes", &GlobalCounters::bytes},       {"searches", &GlobalCounters::searches},
      {"mem_used", &GlobalCounters::mem_used}, {"mem_peak", &GlobalCounters::mem_peak}};
  m.def("counter", [](const std::string& name) {
    for (const Counter& c : counters)
      if (name == c.name) return c.value->load();
    throw ValueError("there is no counter " + name);
  });
  m.def("reset_counters", &GlobalCounters::reset);
  m.def("clear_schedule_cache", &clear_schedule_cache);
}

}  // namespace quern::python
