// The NULL device: schedules and compiles are the same as anywhere, but there is no memory and nothing runs.
#include <fmt/format.h>

#include "quern/runtime/devices.h"

namespace quern {
namespace {

class NullProgram : public Program {
 public:
  void run(std::span<const Argument> /*arguments*/, const VariableValues& /*variables*/) const override {}
};

DeviceSpec null_spec() {
  DeviceSpec spec;
  spec.name = "NULL";
  spec.parallel.cores = 64;
  spec.parallel.threads_per_core = 1024;
  spec.parallel.workgroup = 1024;
  spec.parallel.warp = 32;
  spec.memory.group_bytes = 49152;
  spec.memory.thread_bytes = 0;
  spec.memory.registers = 255;
  return spec;
}

class NullDevice : public Device {
 public:
  using Device::compile;
  explicit NullDevice(std::string name) : Device(std::move(name), null_spec()) {}
  void* allocate(int64_t /*bytes*/) override { return nullptr; }
  bool holds_values() const override { return false; }
  void free(void* /*memory*/, int64_t /*bytes*/) noexcept override {}
  void copy_in(void* /*to*/, const void* /*from*/, int64_t /*bytes*/) override {}
  void copy_out(void* /*to*/, const void* /*from*/, int64_t bytes) override {
    throw DeviceError(fmt::format("{} holds no values: {} bytes cannot be read from it", name(), bytes));
  }
  std::shared_ptr<const Program> compile(const UOp& /*kernel*/) override {
    return std::make_shared<NullProgram>();
  }
};

}  // namespace

std::unique_ptr<Device> open_null(const std::string& name, const std::string& /*detail*/) {
  return std::make_unique<NullDevice>(name);
}

}  // namespace quern
