// The CPU device: machine code for this processor, and memory of the host that is kept for the next tensor.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>

#include "quern/base/env.h"
#include "quern/base/fork.h"
#include "quern/render/c_style/c.h"
#include "quern/runtime/cpu/batch.h"
#include "quern/runtime/cpu/host.h"
#include "quern/runtime/cpu/program.h"
#include "quern/runtime/devices.h"
#include "quern/runtime/host/host_memory.h"
#include "quern/runtime/host/pool.h"

#if defined(__has_feature)
#define QUERN_HAS_FEATURE(x) __has_feature(x)
#else
#define QUERN_HAS_FEATURE(x) 0
#endif

namespace quern {
namespace {

// What one core can use of a cache. The C library's answer, else, counts the last cache of all cores together
// on some machines.
int64_t cache_bytes(int level, int name, int64_t otherwise) {
  for (int i = 0; i < 8; i++) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    int found = 0;
    std::string type;
    if (!(std::ifstream(folder + "level") >> found) || found != level) continue;
    if (!(std::ifstream(folder + "type") >> type) || type == "Instruction") continue;
    int64_t bytes = 0;
    char unit = 'K';
    if (std::ifstream(folder + "size") >> bytes >> unit && bytes > 0 && bytes < (int64_t{1} << 32))
      return bytes << (unit == 'M' ? 20 : 10);
  }
  const long found = sysconf(name);
  return found > 0 ? static_cast<int64_t>(found) : otherwise;
}

DeviceSpec cpu_spec() {
  DeviceSpec spec;
  spec.name = "CPU";
  spec.parallel.cores = threads_to_use();
  spec.memory.registers = cpu::host().vector_registers;
  spec.parallel.vector_bytes = cpu::host().vector_bytes;
  spec.memory.l1_bytes = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE, spec.memory.l1_bytes);
  spec.memory.l2_bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE, spec.memory.l2_bytes);
  spec.memory.l3_bytes = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE, spec.memory.l3_bytes);
  spec.has_float16 = spec.has_bfloat16 = spec.has_fp8 = false;
  spec.converts_float16 = cpu::host().converts_float16;
  spec.adds_addresses_in_64_bits = true;
  spec.has_fma = cpu::host().has_fma;
  spec.has_exp2 = cpu::host().has_avx512;
  return spec;
}

class CpuDevice : public HostDevice {
 public:
  explicit CpuDevice(std::string name) : HostDevice(std::move(name), cpu_spec()) {
    if (env::DEBUG() >= 1)
      std::fputs(fmt::format("device {}: {}, {} cores, vectors of {} bytes\n", this->name(), cpu::host().name,
                             spec().parallel.cores, spec().parallel.vector_bytes)
                     .c_str(),
                 stderr);
  }

  bool takes_programs() const override { return true; }
  using HostDevice::compile;
  std::shared_ptr<const Program> compile(const LinearProgram& program) override {
    return compile_source(ProgramSource{"", [program] { return program; }});
  }
  std::shared_ptr<const Program> compile_source(const ProgramSource& source) override {
    return std::make_shared<cpu::CpuProgram>(source);
  }

  std::string source(const LinearProgram& program) const override { return render_c(program).source; }

  std::unique_ptr<Batch> prepare(std::vector<Launch> launches) override {
    return cpu::prepare(std::move(launches));
  }
  std::string hardware() const override { return cpu::compiler_key(); }

  // Fresh memory from the system is dear: each page of it is cleared when it is first touched.
  void* allocate(int64_t bytes) override {
    if (bytes <= 0 || bytes > kMostKept || env::GUARD() != 0) return allocate_new(bytes);
    {
      const std::lock_guard lock(mutex_);
      const auto found = kept_.find(rounded(bytes));
      if (found != kept_.end()) {
        void* memory = found->second;
        kept_bytes_ -= found->first;
        kept_.erase(found);
        return memory;
      }
    }
    return allocate_new(rounded(bytes));
  }
  void free(void* memory, int64_t bytes) noexcept override {
    if (bytes > 0 && bytes <= kMostKept && memory != nullptr && !is_guarded(memory)) {
      const std::lock_guard lock(mutex_);
      const int64_t size = rounded(bytes);
      if (kept_bytes_ + size <= kMostKept && keep(size, memory)) return;
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
  void* allocate_new(int64_t bytes) {
    try {
      return HostDevice::allocate(bytes);
    } catch (const Error&) {
      give_back_all();
      return HostDevice::allocate(bytes);
    }
  }
  bool keep(int64_t size, void* memory) noexcept {
    try {
      kept_.emplace(size, memory);
    } catch (const std::bad_alloc&) {
      return false;
    }
    kept_bytes_ += size;
    return true;
  }
  void give_back_all() noexcept {
    const std::lock_guard lock(mutex_);
    for (const auto& [size, memory] : kept_) HostDevice::free(memory, size);
    kept_.clear();
    kept_bytes_ = 0;
  }

  ProcessMutex mutex_{LockOrder::device_memory};  // devices stay
  std::multimap<int64_t, void*> kept_;            // by size
  int64_t kept_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Device> open_cpu(const std::string& name, const std::string& /*detail*/) {
  return std::make_unique<CpuDevice>(name);
}

}  // namespace quern
