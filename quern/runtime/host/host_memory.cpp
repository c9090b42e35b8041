#include "quern/runtime/host/host_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "quern/base/env.h"
#include "quern/base/fork.h"

namespace quern {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr size_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLarge = 2 * kHugePage;              // from here on large pages
constexpr int64_t kAsksTheSystem = int64_t{64} << 20;  // from here on it is asked first: it promises too much

// ---- pages that nobody may touch

struct Mapping {
  std::byte* begin;
  size_t bytes;
};
struct Guarded {
  ProcessMutex mutex{LockOrder::guarded_memory};
  std::unordered_map<void*, Mapping> mappings;
  std::atomic<uint64_t> made{0};
};
Guarded& guarded() {
  static auto* const all = new Guarded;  // NOLINT(cppcoreguidelines-owning-memory): used to the end
  return *all;
}

void* allocate_guarded(int64_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)), size = static_cast<size_t>(bytes);
  if (size > std::numeric_limits<size_t>::max() / 2) return nullptr;
  const size_t inside = (size + page - 1) / page * page;
  const Mapping mapping{static_cast<std::byte*>(::mmap(nullptr, inside + 2 * page, PROT_NONE,
                                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
                        inside + 2 * page};
  if (mapping.begin == MAP_FAILED) return nullptr;  // NOLINT
  if (inside > 0 && ::mprotect(mapping.begin + page, inside, PROT_READ | PROT_WRITE) != 0) {
    ::munmap(mapping.begin, mapping.bytes);
    return nullptr;
  }
  const bool at_end = guarded().made.fetch_add(1) % 2 == 0;
  std::byte* const memory = mapping.begin + page + (at_end ? inside - size : 0);
  const std::lock_guard lock(guarded().mutex);
  guarded().mappings.emplace(memory, mapping);
  return memory;
}

bool free_guarded(void* memory) {
  if (guarded().made.load(std::memory_order_relaxed) == 0) return false;
  Mapping mapping;
  {
    const std::lock_guard lock(guarded().mutex);
    const auto found = guarded().mappings.find(memory);
    if (found == guarded().mappings.end()) return false;
    mapping = found->second;
    guarded().mappings.erase(found);
  }
  ::munmap(mapping.begin, mapping.bytes);
  return true;
}

// ---- how much there is

// A number in a small file: behind `name`, or the first one.
int64_t number_in(const char* path, const char* name, int64_t otherwise) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "re"), &std::fclose);
  if (!file) return otherwise;
  std::array<char, 256> line = {};
  const size_t skipped = name == nullptr ? 0 : std::strlen(name);
  while (std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    if (skipped > 0 && std::strncmp(line.data(), name, skipped) != 0) continue;
    char* end = nullptr;
    const long long found = std::strtoll(line.data() + skipped, &end, 10);
    return end == line.data() + skipped ? otherwise : static_cast<int64_t>(found);
  }
  return otherwise;
}

// What a limit of this process leaves of what it counts, of which `field` of /proc/self/statm (in pages) is
// in use.
template <class Resource>
int64_t left_of(Resource resource, int field) {
  struct rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "re"),
                                                             &std::fclose);
  std::array<char, 256> line = {};
  int64_t pages = 0;
  if (file && std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    char* at = line.data();
    for (int i = 0; i <= field; i++) pages = std::strtoll(at, &at, 10);
  }
  const int64_t used = pages * ::sysconf(_SC_PAGESIZE);
  return limit.rlim_cur > static_cast<rlim_t>(used) ? static_cast<int64_t>(limit.rlim_cur) - used : 0;
}

}  // namespace

int64_t available_host_bytes() noexcept {
  int64_t available = kNoLimit;
  if (const int64_t kib = number_in("/proc/meminfo", "MemAvailable:", -1); kib >= 0) available = kib << 10;
  // The limit of a container.
  const int64_t most = number_in("/sys/fs/cgroup/memory.max", nullptr, -1),
                used = number_in("/sys/fs/cgroup/memory.current", nullptr, -1);
  if (most >= 0 && used >= 0) {
    const int64_t cached = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ", 0);
    available = std::min(available, std::max<int64_t>(0, most - used + cached));
  }
  constexpr int kAllPages = 0, kDataPages = 5;
  return std::min({available, left_of(RLIMIT_AS, kAllPages), left_of(RLIMIT_DATA, kDataPages)});
}

void* allocate_host(int64_t bytes) {
  if (bytes < 0) return nullptr;
  if (bytes >= kAsksTheSystem && bytes > available_host_bytes()) return nullptr;
  if (env::GUARD() != 0)
    if (void* memory = allocate_guarded(bytes); memory != nullptr)
      return memory;  // else it has no more pages
  void* memory = nullptr;
  const size_t alignment = bytes >= kLarge ? static_cast<size_t>(kHugePage) : kAlignment;
  if (::posix_memalign(&memory, alignment, std::max<size_t>(1, static_cast<size_t>(bytes))) != 0)
    return nullptr;
#ifdef MADV_HUGEPAGE
  if (bytes >= kLarge)
    (void)::madvise(memory, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
#endif
  return memory;
}

bool is_guarded(void* memory) noexcept {
  if (guarded().made.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(guarded().mutex);
  return guarded().mappings.contains(memory);
}

void free_host(void* memory) noexcept {
  if (!free_guarded(memory)) std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
}

}  // namespace quern
