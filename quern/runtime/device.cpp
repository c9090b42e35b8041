#include "quern/runtime/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "quern/base/env.h"
#include "quern/base/file.h"
#include "quern/base/fork.h"
#include "quern/runtime/counters.h"
#include "quern/runtime/devices.h"
#include "quern/runtime/host/host_memory.h"

namespace quern {
namespace {

struct Kind {
  const char* name;
  std::unique_ptr<Device> (*open)(const std::string& name, const std::string& detail);
  bool numbered;  // what stands behind the colon is a number; else a path, which there must be
};
constexpr Kind kKinds[] = {
// the first is where tensors are, if nothing is said
#ifdef QUERN_HAVE_LLVM
    {"CPU", open_cpu, true},
#endif
    {"INTERP", open_interp, true}, {"LINEAR", open_linear, true},
#ifdef QUERN_HAVE_CL
    {"CL", open_cl, true},
#endif
    {"NULL", open_null, true},     {"DISK", open_disk, false},
};

struct Parsed {
  const Kind* kind;
  std::string name, detail;
};

Parsed parse_name(std::string_view given) {
  const size_t colon = given.find(':');
  std::string kind(given.substr(0, colon));
  std::ranges::transform(kind, kind.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const auto* found = std::ranges::find_if(kKinds, [&](const Kind& k) { return kind == k.name; });
  if (found == std::end(kKinds))
    throw DeviceError(
        fmt::format("there is no device '{}'; there are {}", given, fmt::join(Device::known(), ", ")));
  std::string detail(colon == std::string_view::npos ? "" : given.substr(colon + 1));
  if (!found->numbered) {
    if (detail.empty())
      throw DeviceError(fmt::format("device '{}': expected a path, as in {}:/path/file", given, kind));
    (void)system_path(detail);
    return {found, kind + ":" + detail, detail};
  }
  const bool digits = !detail.empty() && detail.size() <= 4 &&
                      std::ranges::all_of(detail, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (colon != std::string_view::npos && !digits)
    throw DeviceError(
        fmt::format("device '{}': expected a number behind the colon, as in {}:1", given, kind));
  const int number = digits ? std::stoi(detail) : 0;
  return {found, number == 0 ? kind : fmt::format("{}:{}", kind, number), std::to_string(number)};
}

}  // namespace

Device& Device::get(std::string_view name) {
  static ProcessMutex mutex(LockOrder::devices);
  // Never freed: memory of devices may be given back as late as the last tensor goes.
  static auto* const opened =
      new std::unordered_map<std::string,
                             std::unique_ptr<Device>>;  // NOLINT(cppcoreguidelines-owning-memory)
  const Parsed parsed = parse_name(name);
  const std::lock_guard lock(mutex);
  std::unique_ptr<Device>& device = (*opened)[parsed.name];
  if (!device) device = parsed.kind->open(parsed.name, parsed.detail);
  return *device;
}

std::string Device::canonical(std::string_view name) { return parse_name(name).name; }

std::string Device::default_name() {
  const std::string& chosen = env::DEVICE();
  return chosen.empty() ? kKinds[0].name : canonical(chosen);
}

std::vector<std::string> Device::known() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds)
    names.emplace_back(kind.numbered ? kind.name : fmt::format("{}:/path", kind.name));
  return names;
}

std::shared_ptr<const Program> Device::compile(const UOp& kernel) {
  throw DeviceError(fmt::format("{} runs programs, not {}", name_, quern::name(kernel.op())));
}

std::shared_ptr<const Program> Device::compile(const LinearProgram& program) {
  throw DeviceError(fmt::format("{} runs kernels, not programs: {}", name_, program.name));
}

std::string Device::source(const LinearProgram& /*program*/) const { return ""; }

std::shared_ptr<const Program> Device::compile_source(const ProgramSource& source) {
  return compile(source.lower());
}

// ---- memory of the host

namespace {

std::string in_gib(int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string no_memory(const std::string& device, int64_t bytes) {
  const int64_t available = available_host_bytes(), held = GlobalCounters::mem_used.load();
  // What the system tells of itself may change meanwhile, and is not all that it goes by.
  const std::string left =
      available < bytes ? fmt::format("{} bytes are available ({})", available, in_gib(available))
                        : "the system refuses them: a limit of this process or of its group is reached";
  return fmt::format("{}: out of memory, {} bytes were asked for ({}); {}; tensors hold {} bytes ({})",
                     device, bytes, in_gib(bytes), left, held, in_gib(held));
}

}  // namespace

void* HostDevice::allocate(int64_t bytes) {
  void* memory = allocate_host(bytes);
  if (memory == nullptr) throw MemoryError(no_memory(name(), bytes));
  return memory;
}

void HostDevice::free(void* memory, int64_t /*bytes*/) noexcept { free_host(memory); }

void HostDevice::copy_in(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
}

void HostDevice::copy_out(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
}

}  // namespace quern
