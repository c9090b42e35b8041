// The INTERP device: executes kernels node by node. The oracle that other devices are compared with.
#include <mutex>
#include <unordered_map>

#include "quern/runtime/devices.h"
#include "quern/runtime/interp/program.h"

namespace quern {
namespace {

// Like a small GPU, so that what is made for one can be tried: workgroups of threads with LOCAL memory.
DeviceSpec interp_spec() {
  DeviceSpec spec;
  spec.name = "INTERP";
  spec.parallel.cores = 4;
  spec.parallel.threads_per_core = 256;
  spec.parallel.workgroup = 256;
  spec.parallel.warp = 32;
  spec.memory.group_bytes = 32768;
  spec.memory.thread_bytes = 0;
  spec.memory.registers = 128;
  return spec;
}

class InterpDevice : public HostDevice {
 public:
  explicit InterpDevice(std::string name) : HostDevice(std::move(name), interp_spec()) {}

  std::shared_ptr<const Program> compile(const LinearProgram& program) override {
    return std::make_shared<interp::InterpProgram>(program);
  }
  std::shared_ptr<const Program> compile(const UOp& kernel) override {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = programs_.find(kernel); known != programs_.end()) return known->second;
    }
    auto program = std::make_shared<interp::InterpProgram>(kernel);
    const std::lock_guard lock(mutex_);
    if (programs_.size() >= kMostPrograms) programs_.clear();
    return programs_.emplace(kernel, std::move(program)).first->second;
  }

 private:
  static constexpr size_t kMostPrograms = 4096;
  std::mutex mutex_;
  std::unordered_map<UOp, std::shared_ptr<const Program>> programs_;  // holds the kernels, too
};

// The same, of programs that codegen makes for such a GPU: what its passes do is seen without a renderer.
// LINEAR:16 has 16 KiB of LOCAL memory, and so on; numbers below 8 are more devices with as much as LINEAR.
DeviceSpec linear_spec(const std::string& detail) {
  DeviceSpec spec = interp_spec();
  if (const int number = std::stoi(detail); number >= 8) spec.memory.group_bytes = int64_t{1024} * number;
  spec.name = "LINEAR";
  spec.has_float16 = spec.has_bfloat16 = spec.has_fp8 = false;
  return spec;
}

class LinearDevice : public HostDevice {
 public:
  LinearDevice(std::string name, const std::string& detail)
      : HostDevice(std::move(name), linear_spec(detail)) {}

  bool takes_programs() const override { return true; }
  using HostDevice::compile;
  std::shared_ptr<const Program> compile(const LinearProgram& program) override {
    return std::make_shared<interp::InterpProgram>(program);
  }
};

}  // namespace

std::unique_ptr<Device> open_linear(const std::string& name, const std::string& detail) {
  return std::make_unique<LinearDevice>(name, detail);
}

std::unique_ptr<Device> open_interp(const std::string& name, const std::string& /*detail*/) {
  return std::make_unique<InterpDevice>(name);
}

}  // namespace quern
