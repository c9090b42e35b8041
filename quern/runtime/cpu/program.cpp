#include "quern/runtime/cpu/program.h"

#include <fmt/format.h>
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <thread>

#include "quern/base/env.h"
#include "quern/base/fork.h"
#include "quern/base/profile.h"
#include "quern/runtime/arguments.h"
#include "quern/runtime/cache/disk_cache.h"
#include "quern/runtime/cpu/compile.h"
#include "quern/runtime/cpu/disassemble.h"
#include "quern/runtime/cpu/host.h"
#include "quern/runtime/host/host_memory.h"
#include "quern/runtime/host/may_stop.h"
#include "quern/runtime/host/pool.h"

namespace quern::cpu {
namespace {

// ---- where code comes from

// Whoever wants to see or check how code is made gets it made.
bool wants_to_see() {
  return env::DEBUG() >= 4 || env::SPEC() > 0 || env::TRACK_MATCH_STATS() > 0 ||
         !env::REWRITE_TRACE().empty();
}

// None: it is not there, or cannot be used.
std::optional<CodeInMemory> kept(DiskCache* cache, const std::string& key) {
  if (cache == nullptr || key.empty() || wants_to_see()) return {};
  const profile::Timer timer("found on disk");
  const std::optional<std::string> bytes = cache->find(key);
  std::optional<Code> code = bytes ? Code::from(*bytes) : std::nullopt;
  if (!code) return {};
  try {
    Linked linked = link(*code);
    return CodeInMemory{std::move(*code), std::move(linked)};
  } catch (const Error& e) {
    if (env::DEBUG() >= 1)
      std::fputs(fmt::format("cache  {:<28} not used, {}\n", code->name, e.what()).c_str(), stderr);
    return {};
  }
}

double milliseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

CodeInMemory made(const ProgramSource& source, bool no_alias) {
  const auto start = std::chrono::steady_clock::now();
  LinearProgram program = source.lower();
  if (!no_alias && program.in_order) program = program.in_order();
  if (env::DEBUG() >= 7) std::fputs(llvm_text(program, false).c_str(), stderr);
  const auto lowered = std::chrono::steady_clock::now();
  const profile::Timer timer("LLVM");
  Code code = compile(program, no_alias);
  Linked linked = link(code);
  if (env::DEBUG() >= 1)
    std::fputs(
        fmt::format("cache  {:<28} compiled in {:.1f} + {:.1f} ms\n", code.name,
                    milliseconds(lowered - start), milliseconds(std::chrono::steady_clock::now() - lowered))
            .c_str(),
        stderr);
  return {std::move(code), std::move(linked)};
}

CodeInMemory kept_or_made(const ProgramSource& source, bool no_alias) {
  DiskCache* const cache = source.key.empty() ? nullptr : DiskCache::get();
  const std::string key =
      cache == nullptr ? "" : fmt::format("CPU {}\n{}\n{}", no_alias ? 1 : 0, compiler_key(), source.key);
  if (std::optional<CodeInMemory> found = kept(cache, key)) {
    if (env::DEBUG() >= 1) std::fputs(fmt::format("cache  {:<28} found\n", found->code.name).c_str(), stderr);
    return std::move(*found);
  }
  CodeInMemory result = made(source, no_alias);
  if (env::DEBUG() >= 7) std::fputs(disassembly(result.code).c_str(), stderr);
  if (cache != nullptr) cache->store(key, result.code.bytes());
  return result;
}

// Once it is linked, the object is let go of.
CodeInMemory ready(const ProgramSource& source, bool no_alias) {
  CodeInMemory result = kept_or_made(source, no_alias);
  result.code.object = std::string();
  return result;
}

// ---- what runs it

// Memory of a thread for LOCAL arrays and large registers; none if there is not that much.
void* scratch(int64_t bytes) {
  struct Free {
    void operator()(void* p) const { free_host(p); }
  };
  thread_local std::unique_ptr<void, Free> memory;
  thread_local int64_t size = 0;
  if (bytes > size) {
    memory.reset();
    memory.reset(allocate_host(bytes));
    size = memory ? bytes : 0;
  }
  return memory.get();
}

// A forked process has none of the threads, and starts its own; those that it knows of are forgotten.
class Threads {
 public:
  Threads() {
    in_forked_child([] { static_cast<void>(threads().pool_.exchange(nullptr)); });
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { delete pool_.load(); }  // NOLINT(cppcoreguidelines-owning-memory)

  static Threads& threads() {
    static Threads made;
    return made;
  }
  Pool& pool() {
    Pool* known = pool_.load(std::memory_order_acquire);
    if (known != nullptr) return *known;
    auto made = std::make_unique<Pool>(static_cast<int>(threads_to_use()));
    return *(pool_.compare_exchange_strong(known, made.get()) ? made.release() : known);
  }

 private:
  std::atomic<Pool*> pool_{nullptr};
};

// One run of a kernel: each part is one value of its THREAD range. The thread that called it asks whether to
// go on; if not, all threads stop when they ask themselves.
struct Parts : Poll {
  Parts(Function f, const Code& code, void** m, const int64_t* v)
      : Poll{&Parts::stops}, function(f), scratch_bytes(code.scratch_bytes), memory(m), values(v) {}

  Function function;
  int64_t scratch_bytes;
  void** memory;
  const int64_t* values;
  const MayStop* const may_stop = MayStop::current();
  std::atomic<bool> failed = false, stopped = false;
  std::exception_ptr why;

  static int32_t stops(Poll* self) {
    auto& parts = *static_cast<Parts*>(self);
    if (parts.stopped.load(std::memory_order_relaxed)) return 1;
    if (parts.may_stop == nullptr || MayStop::current() != parts.may_stop) return 0;
    try {
      parts.may_stop->ask();
      return 0;
    } catch (...) {  // machine code is no place for an exception to pass
      parts.why = std::current_exception();
    }
    parts.stopped = true;
    return 1;
  }
  static void waiting(void* self) { (void)stops(static_cast<Parts*>(self)); }

  // Machine code has no record of its type before it, where the sanitizer would look for one.
#if defined(__clang__)
  [[clang::no_sanitize("function")]]
#endif
  static void run(void* self, int64_t thread) {
    auto& parts = *static_cast<Parts*>(self);
    if (parts.stopped.load(std::memory_order_relaxed)) return;
    void* own = parts.scratch_bytes > 0 ? scratch(parts.scratch_bytes) : nullptr;
    if (parts.scratch_bytes > 0 && own == nullptr)
      parts.failed = true;
    else
      parts.function(parts.memory, parts.values, own, thread, &parts);
  }
};

int64_t checked(const Code& code, const Code::Variable& v, const VariableValues& variables) {
  return value_of(v.name, v.min, v.max, variables, code.name);
}

}  // namespace

CpuProgram::CpuProgram(ProgramSource source) : source_(std::move(source)), apart_(ready(source_, true)) {
  for (const Code::Param& p : apart_.code.params) slots_ = std::max(slots_, p.slot + 1);
}

void CpuProgram::run(std::span<const Argument> arguments, const VariableValues& variables) const {
  std::vector<void*> memory(static_cast<size_t>(slots_), nullptr);
  for (const Code::Param& p : apart_.code.params)
    memory[static_cast<size_t>(p.slot)] = argument_of(p, arguments, apart_.code.name).memory;
  std::vector<int64_t> values;
  values.reserve(apart_.code.variables.size());
  for (const Code::Variable& v : apart_.code.variables) values.push_back(checked(apart_.code, v, variables));
  // Code is made for arguments that are different memory. Where one that is written overlaps another, there
  // is a second form of it.
  const bool overlaps = overlap(apart_.code.params, arguments);
  const Callable form = callable(overlaps);
  if (overlaps) {  // its variables may come in another order
    values.clear();
    for (const Code::Variable& v : form.code->variables) values.push_back(checked(*form.code, v, variables));
  }
  form.run(memory.data(), values.data());
}

CpuProgram::Callable CpuProgram::callable(bool overlapping) const {
  if (!overlapping) return {apart_.linked.function, &apart_.code};
  const CodeInMemory& other = for_overlaps();
  return {other.linked.function, &other.code};
}

void CpuProgram::Callable::run(void** memory, const int64_t* values) const {
  Parts parts(function, *code, memory, values);
  Threads::threads().pool().run(code->threads, &Parts::run, &parts, &Parts::waiting);
  if (parts.stopped) std::rethrow_exception(parts.why);
  if (parts.failed)
    throw MemoryError(fmt::format("CPU: out of memory, {} bytes for the LOCAL arrays of kernel {}",
                                  code->scratch_bytes, code->name));
}

const CodeInMemory& CpuProgram::for_overlaps() const {
  const std::lock_guard lock(mutex_);
  if (!overlapping_) overlapping_ = ready(source_, false);
  return *overlapping_;
}

}  // namespace quern::cpu
