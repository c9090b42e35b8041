#include "quern/ir/node_memory.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

#include "quern/ir/fork.h"
#include "quern/ir/uop.h"

#if defined(__SANITIZE_ADDRESS__)
#define QUERN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUERN_ASAN 1
#endif
#endif
#ifdef QUERN_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace quern::detail {
namespace {

constexpr size_t kUnitsInChunk = kHalf / kUnit - 1;  // the last holds the ChunkEnd
constexpr size_t kBatch = 256;                       // slots that a thread takes at once
constexpr size_t kClasses = 13;  // slots of 1, 2, 4, ... 4096 units; larger nodes stand alone

static_assert(sizeof(Far) <= kUnit);
static_assert(3 * sizeof(UOp) + sizeof(Node) <= kUnit, "most nodes fit in one cache line");

size_t bytes(size_t sources) { return sources * sizeof(UOp) + sizeof(Node); }
size_t class_of(size_t sources) {
  return static_cast<size_t>(std::bit_width((bytes(sources) + kUnit - 1) / kUnit - 1));
}
size_t slot_bytes(size_t size_class) { return kUnit << size_class; }

using FreeSlots = std::array<std::vector<void*>, kClasses>;

// What no thread holds at the moment. Never destroyed, because static UOps may outlive everything else.
struct Reserve {
  ProcessMutex mutex{LockOrder::node_memory};
  FreeSlots free;
  std::byte* next = nullptr;  // the rest of the newest chunk
  size_t left = 0;
  std::atomic<uint32_t> chunks{0};     // read without the mutex
  std::vector<uint32_t> free_numbers;  // of chunks that stood alone and were given back
};
Reserve& reserve() {
  static auto* const instance = new Reserve;  // NOLINT(cppcoreguidelines-owning-memory): see above
  return *instance;
}

// Memory of whole chunks; the one that begins at `before` gets a number.
std::byte* new_chunk(Reserve& r, size_t before) {
  auto* memory = static_cast<std::byte*>(::operator new(before + kChunk, std::align_val_t(kChunk)));
  madvise(memory, before + kChunk, MADV_HUGEPAGE);  // walks over large graphs miss less; no matter if refused
  uint32_t number = r.chunks;
  if (r.free_numbers.empty()) {
    r.chunks++;
  } else {
    number = r.free_numbers.back();
    r.free_numbers.pop_back();
  }
  new (memory + before + kHalf - kUnit) ChunkEnd{number * static_cast<uint32_t>(kHalf / kUnit)};
  return memory;
}

// A slot from the newest chunk. What is left of a chunk that is too small for it becomes slots of one unit.
void* new_slot(Reserve& r, size_t size) {
  if (r.left < size) {
    for (; r.left >= kUnit; r.left -= kUnit, r.next += kUnit) r.free[0].push_back(r.next);
    r.next = new_chunk(r, 0);
    r.left = kUnitsInChunk * kUnit;
    ASAN_POISON_MEMORY_REGION(r.next, r.left);
    ASAN_POISON_MEMORY_REGION(r.next + kHalf, r.left);
  }
  void* slot = r.next;
  r.next += size;
  r.left -= size;
  return slot;
}

void take(std::vector<void*>& into, size_t size_class) {
  Reserve& r = reserve();
  const std::lock_guard lock(r.mutex);
  auto& spare = r.free[size_class];
  for (size_t count = size_class < 2 ? kBatch : 1; into.size() < count;) {
    if (spare.empty()) {
      into.push_back(new_slot(r, slot_bytes(size_class)));
    } else {
      into.push_back(spare.back());
      spare.pop_back();
    }
  }
}

void give_back(std::vector<void*>& from, size_t size_class, size_t keep) {
  Reserve& r = reserve();
  const std::lock_guard lock(r.mutex);
  r.free[size_class].insert(r.free[size_class].end(), from.begin() + static_cast<std::ptrdiff_t>(keep),
                            from.end());
  from.resize(keep);
}

// A thread's own slots; none after the thread's end (static destructors run then).
thread_local FreeSlots* local_slots = nullptr;
thread_local bool local_slots_gone = false;
struct LocalSlots {
  FreeSlots slots;
  LocalSlots() { local_slots = &slots; }
  LocalSlots(const LocalSlots&) = delete;
  LocalSlots& operator=(const LocalSlots&) = delete;
  ~LocalSlots() {
    local_slots = nullptr;
    local_slots_gone = true;
    for (size_t i = 0; i < kClasses; i++) give_back(slots[i], i, 0);
  }
};
FreeSlots* thread_slots() {
  if (local_slots == nullptr && !local_slots_gone) static thread_local LocalSlots made;
  return local_slots;
}

// A node too large for a chunk begins one of its own; its sources fill the memory before that.
size_t bytes_before(size_t sources) { return (sources * sizeof(UOp) + kChunk - 1) / kChunk * kChunk; }

void* allocate_alone(size_t sources) {
  Reserve& r = reserve();
  const std::lock_guard lock(r.mutex);
  return new_chunk(r, bytes_before(sources)) + bytes_before(sources);
}

void free_alone(void* node, size_t sources) {
  Reserve& r = reserve();
  const std::lock_guard lock(r.mutex);
  const uint32_t first = chunk_end(static_cast<Node*>(node)).first_id;
  r.free_numbers.push_back(first / static_cast<uint32_t>(kHalf / kUnit));
  ::operator delete(static_cast<std::byte*>(node) - bytes_before(sources), std::align_val_t(kChunk));
}

}  // namespace

uint32_t id_limit() {
  return reserve().chunks.load(std::memory_order_acquire) * static_cast<uint32_t>(kHalf / kUnit);
}

void* allocate_node(size_t sources) {
  const size_t size_class = class_of(sources);
  if (size_class >= kClasses) return allocate_alone(sources);
  std::vector<void*> one;
  FreeSlots* own = thread_slots();
  std::vector<void*>& slots = own ? (*own)[size_class] : one;
  if (slots.empty()) take(slots, size_class);
  void* slot = slots.back();
  slots.pop_back();
  if (!slots.empty()) {
    __builtin_prefetch(slots.back(), 1);
    __builtin_prefetch(static_cast<std::byte*>(slots.back()) + kHalf, 1);
  }
  if (!own) give_back(slots, size_class, 0);
  ASAN_UNPOISON_MEMORY_REGION(slot, slot_bytes(size_class));
  ASAN_UNPOISON_MEMORY_REGION(static_cast<std::byte*>(slot) + kHalf, slot_bytes(size_class));
  return static_cast<std::byte*>(slot) + sources * sizeof(UOp);
}

void free_node(void* node, size_t sources) noexcept {
  const size_t size_class = class_of(sources);
  if (size_class >= kClasses) {
    free_alone(node, sources);
    return;
  }
  void* slot = static_cast<std::byte*>(node) - sources * sizeof(UOp);
  ASAN_POISON_MEMORY_REGION(slot, slot_bytes(size_class));
  ASAN_POISON_MEMORY_REGION(static_cast<std::byte*>(slot) + kHalf, slot_bytes(size_class));
  std::vector<void*> one;
  FreeSlots* own = thread_slots();
  std::vector<void*>& slots = own ? (*own)[size_class] : one;
  slots.push_back(slot);
  const size_t keep = own ? 16 * kBatch : 0;
  if (slots.size() > 2 * keep) give_back(slots, size_class, keep);
}

}  // namespace quern::detail
