// Devices: they hold memory, and run programs on it. All of this may be used from several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {

// Memory of a device as a program gets it.
struct Argument {
  void* memory;
  int64_t bytes;
};
using VariableValues = std::map<std::string, int64_t>;

// What a device makes of a kernel, ready to run, as often as one likes and from any thread.
class Program {
 public:
  virtual ~Program() = default;
  virtual void run(std::span<const Argument> arguments, const VariableValues& variables) const = 0;
  virtual Texts opts() const { return {}; }  // that were applied to the kernel
};

// A program that is lowered only if it has to be.
struct ProgramSource {
  std::string key;  // of what it is made from: programs of one key are one program; "": it has none
  std::function<LinearProgram()> lower;
};

class Batch;
struct Launch;

class Device {
 public:
  // The device of that name, opened when first asked for: "INTERP", "INTERP:1", "NULL",
  // "DISK:/path/of/a/file". "interp" and "INTERP:0" are INTERP. A DeviceError for a name that is none, or a
  // device that cannot be opened.
  static Device& get(std::string_view name);
  static std::string canonical(std::string_view name);  // checks the form of the name, opens nothing
  static std::string default_name();                    // from the environment: DEVICE
  static std::vector<std::string> known();              // what names may begin with

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  const std::string& name() const { return name_; }
  const DeviceSpec& spec() const { return spec_; }

  // Memory is aligned to 64 bytes at least and holds anything; an Error that says how much was asked for.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void free(void* memory, int64_t bytes) noexcept = 0;
  virtual void copy_in(void* to, const void* from, int64_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, int64_t bytes) = 0;
  virtual bool is_host_memory() const { return false; }  // its memory can be read and written by anyone
  virtual bool holds_values() const { return true; }     // what was written can be read

  // What it runs: kernels as the scheduler makes them (SINKs), or the programs that codegen makes of them.
  // engine/realize/programs.h asks, and keeps what was compiled.
  virtual bool takes_programs() const { return false; }
  virtual std::shared_ptr<const Program> compile(const UOp& kernel);
  virtual std::shared_ptr<const Program> compile(const LinearProgram& program);
  virtual std::string source(const LinearProgram& program) const;  // to be read; "" if there is none
  virtual std::shared_ptr<const Program> compile_source(const ProgramSource& source);  // may be kept on disk
  // What the times of programs depend on beside their code: the processor. "": they are not worth measuring.
  virtual std::string hardware() const { return ""; }

  // Programs of this device that will be run often, in this order (batch.h).
  virtual std::unique_ptr<Batch> prepare(std::vector<Launch> launches);

  // Buffers hold so much more of its memory; returns how much that is in all.
  int64_t count_memory(int64_t change) { return held_ += change; }

 protected:
  Device(std::string name, DeviceSpec spec) : name_(std::move(name)), spec_(std::move(spec)) {}

 private:
  std::string name_;
  DeviceSpec spec_;
  std::atomic<int64_t> held_ = 0;
};

// A device whose memory is that of the host.
class HostDevice : public Device {
 public:
  void* allocate(int64_t bytes) override;
  void free(void* memory, int64_t bytes) noexcept override;
  void copy_in(void* to, const void* from, int64_t bytes) override;
  void copy_out(void* to, const void* from, int64_t bytes) override;
  bool is_host_memory() const override { return true; }

 protected:
  using Device::Device;
};

}  // namespace quern
