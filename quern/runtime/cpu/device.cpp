// The CPU device: machine code for this processor, and memory of the host that is kept for the next tensor.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "quern/ir/env.h"
#include "quern/render/c.h"
#include "quern/runtime/cpu/compile.h"
#include "quern/runtime/devices.h"
#include "quern/runtime/pool.h"

#if defined(__has_feature)
#define QUERN_HAS_FEATURE(x) __has_feature(x)
#else
#define QUERN_HAS_FEATURE(x) 0
#endif

namespace quern {
namespace {

// ---- programs

int64_t threads_to_use() {
  if (env::CPU_THREADS() > 0) return env::CPU_THREADS();
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

// Memory of a thread for LOCAL arrays and large registers; none if there is not that much.
void* scratch(int64_t bytes) {
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  thread_local std::unique_ptr<std::byte, Free> memory;
  thread_local int64_t size = 0;
  if (bytes > size) {
    memory.reset(static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(bytes), std::align_val_t(64), std::nothrow)));
    size = memory ? bytes : 0;
  }
  return memory.get();
}

std::string out_of_scratch(int64_t bytes) {
  return fmt::format("CPU: out of memory, {} bytes for a kernel's LOCAL arrays", bytes);
}

Pool& pool() {
  static Pool threads(static_cast<int>(threads_to_use()));
  return threads;
}

// One run of a kernel: each part is one value of its THREAD range.
struct Parts {
  const cpu::Compiled& code;
  void** memory;
  const int64_t* values;
  std::atomic<bool> failed = false;

  // Machine code has no record of its type before it, where the sanitizer would look for one.
#if defined(__clang__)
  [[clang::no_sanitize("function")]]
#endif
  static void run(void* self, int64_t thread) {
    auto& [code, memory, values, failed] = *static_cast<Parts*>(self);
    void* own = code.scratch_bytes > 0 ? scratch(code.scratch_bytes) : nullptr;
    if (code.scratch_bytes > 0 && own == nullptr)
      failed = true;
    else
      code.function(memory, values, own, thread);
  }
};

class CpuProgram : public Program {
 public:
  explicit CpuProgram(LinearProgram program)
      : program_(std::move(program)), code_(cpu::compile(program_, true)) {
    for (const UOp& p : code_.params) slots_ = std::max(slots_, p.arg().integer() + 1);
    for (const UOp& u : program_.list)
      if (u.op() == Op::STORE && storage_of(u.src(0)).op() == Op::PARAM)
        written_.insert_or_assign(storage_of(u.src(0)).arg().integer(), true);
  }

  void run(std::span<const Argument> arguments, const VariableValues& variables) const override {
    std::vector<void*> memory(static_cast<size_t>(slots_), nullptr);
    for (const UOp& p : code_.params) memory[static_cast<size_t>(p.arg().integer())] = checked(p, arguments);
    std::vector<int64_t> values;
    for (const UOp& v : code_.variables) values.push_back(checked(v, variables));
    const cpu::Compiled& code = overlap(arguments) ? code_for_overlaps() : code_;
    Parts parts{code, memory.data(), values.data()};
    pool().run(code.threads, &Parts::run, &parts);
    if (parts.failed) throw Error(out_of_scratch(code.scratch_bytes));
  }
  Texts opts() const override { return program_.opts; }

 private:
  void* checked(const UOp& param, std::span<const Argument> arguments) const {
    const int64_t slot = param.arg().integer(), size = param.dtype().size();
    if (slot >= std::ssize(arguments))
      throw Error(fmt::format("kernel {}: PARAM {} has no argument, {} are given", program_.name, slot,
                              arguments.size()));
    const Argument& given = arguments[static_cast<size_t>(slot)];
    if (size > given.bytes / param.dtype().base().bytes())
      throw Error(fmt::format("kernel {}: PARAM {} needs {} elements of {}, its argument has {} bytes",
                              program_.name, slot, size, param.dtype().base().name(), given.bytes));
    return given.memory;
  }
  int64_t checked(const UOp& variable, const VariableValues& variables) const {
    const VariableArg& v = variable.arg().variable();
    const auto given = variables.find(v.name);
    if (given == variables.end())
      throw Error(fmt::format("kernel {}: variable {} has no value", program_.name, v.name));
    if (given->second < v.min || given->second > v.max)
      throw Error(fmt::format("kernel {}: variable {} is {}, not from {} to {}", program_.name, v.name,
                              given->second, v.min, v.max));
    return given->second;
  }

  // Code is made for arguments that are different memory. Where one that is written overlaps another, there
  // is a second form of it.
  bool overlap(std::span<const Argument> arguments) const {
    for (const auto& [slot, yes] : written_) {
      const Argument& a = arguments[static_cast<size_t>(slot)];
      for (const UOp& p : code_.params) {
        const Argument& b = arguments[static_cast<size_t>(p.arg().integer())];
        const auto *x = static_cast<const std::byte*>(a.memory), *y = static_cast<const std::byte*>(b.memory);
        if (p.arg().integer() != slot && x < y + b.bytes && y < x + a.bytes) return true;
      }
    }
    return false;
  }
  const cpu::Compiled& code_for_overlaps() const {
    const std::lock_guard lock(mutex_);
    if (!overlapping_) overlapping_ = cpu::compile(program_.in_order ? program_.in_order() : program_, false);
    return *overlapping_;
  }

  const LinearProgram program_;
  const cpu::Compiled code_;
  int64_t slots_ = 0;
  std::map<int64_t, bool> written_;
  mutable std::mutex mutex_;
  mutable std::optional<cpu::Compiled> overlapping_;
};

// ---- the device

int64_t cache_bytes(int name, int64_t otherwise) {
  const long found = sysconf(name);
  return found > 0 ? static_cast<int64_t>(found) : otherwise;
}

DeviceSpec cpu_spec() {
  DeviceSpec spec;
  spec.name = "CPU";
  spec.compute_units = threads_to_use();
  spec.registers = cpu::host().vector_registers;
  spec.vector_bytes = cpu::host().vector_bytes;
  spec.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, spec.l1_bytes);
  spec.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, spec.l2_bytes);
  spec.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, spec.l3_bytes);
  spec.has_float16 = spec.has_bfloat16 = spec.has_fp8 = false;
  spec.converts_float16 = cpu::host().converts_float16;
  spec.adds_addresses_in_64_bits = true;
  spec.has_fma = cpu::host().has_fma;
  return spec;
}

class CpuDevice : public HostDevice {
 public:
  explicit CpuDevice(std::string name) : HostDevice(std::move(name), cpu_spec()) {}

  bool takes_programs() const override { return true; }
  using HostDevice::compile;
  std::shared_ptr<const Program> compile(const LinearProgram& program) override {
    if (env::DEBUG() >= 5) std::fputs(cpu::llvm_text(program, false).c_str(), stderr);
    if (env::DEBUG() >= 7) std::fputs(cpu::assembly(program).c_str(), stderr);
    return std::make_shared<CpuProgram>(program);
  }

  std::string source(const LinearProgram& program) const override { return render_c(program).source; }

  // Fresh memory from the system is dear: each page of it is cleared when it is first touched.
  void* allocate(int64_t bytes) override {
    if (bytes > 0 && bytes <= kMostKept) {
      const std::lock_guard lock(mutex_);
      const auto found = kept_.find(rounded(bytes));
      if (found != kept_.end()) {
        void* memory = found->second;
        kept_bytes_ -= found->first;
        kept_.erase(found);
        return memory;
      }
    }
    const int64_t size = bytes > 0 && bytes <= kMostKept ? rounded(bytes) : bytes;
    try {
      return HostDevice::allocate(size);
    } catch (const Error&) {
      give_back_all();
      return HostDevice::allocate(bytes > 0 && bytes <= kMostKept ? size : bytes);
    }
  }
  void free(void* memory, int64_t bytes) noexcept override {
    if (bytes > 0 && bytes <= kMostKept && memory != nullptr) {
      const std::lock_guard lock(mutex_);
      const int64_t size = rounded(bytes);
      if (kept_bytes_ + size <= kMostKept) {
        kept_.emplace(size, memory);
        kept_bytes_ += size;
        return;
      }
    }
    HostDevice::free(memory, bytes);
  }

 private:
#if defined(__SANITIZE_ADDRESS__) || QUERN_HAS_FEATURE(address_sanitizer)
  static constexpr int64_t kMostKept = 0;  // it looks for uses of freed memory
#else
  static constexpr int64_t kMostKept = int64_t{1} << 30;
#endif
  // Up to an eighth more, so that sizes that are nearly the same share memory.
  static int64_t rounded(int64_t bytes) {
    int64_t step = 64;
    while (step * 16 <= bytes) step *= 2;
    return (bytes + step - 1) / step * step;
  }
  void give_back_all() noexcept {
    const std::lock_guard lock(mutex_);
    for (const auto& [size, memory] : kept_) HostDevice::free(memory, size);
    kept_.clear();
    kept_bytes_ = 0;
  }

  std::mutex mutex_;
  std::multimap<int64_t, void*> kept_;  // by size
  int64_t kept_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Device> open_cpu(const std::string& name, const std::string& /*detail*/) {
  return std::make_unique<CpuDevice>(name);
}

}  // namespace quern
