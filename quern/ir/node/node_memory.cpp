#include "quern/ir/node/node_memory.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "quern/base/fork.h"
#include "quern/ir/node/uop.h"

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
constexpr size_t kBatch = 256;                       // slots that a thread takes at once, if they are new
constexpr size_t kKept = 16 * kBatch;                // free ones that it gives back at once
constexpr size_t kClasses = 13;  // slots of 1, 2, 4, ... 4096 units; larger nodes stand alone

static_assert(sizeof(Far) <= kUnit);
static_assert(3 * sizeof(UOp) + sizeof(Node) <= kUnit, "most nodes fit in one cache line");

size_t bytes(size_t sources) { return sources * sizeof(UOp) + sizeof(Node); }
size_t class_of(size_t sources) {
  return static_cast<size_t>(std::bit_width((bytes(sources) + kUnit - 1) / kUnit - 1));
}
size_t slot_bytes(size_t size_class) { return kUnit << size_class; }

// A slot that is free says which is the next one: to free a node takes no memory, which there may be none of.
struct FreeSlot {
  void* next;
  void* next_batch;  // of the first slot of a batch in the reserve, as `count` is
  size_t count;
};
static_assert(sizeof(FreeSlot) <= kUnit);

FreeSlot read(void* slot) {
  ASAN_UNPOISON_MEMORY_REGION(slot, sizeof(FreeSlot));
  const FreeSlot links = *static_cast<FreeSlot*>(slot);
  ASAN_POISON_MEMORY_REGION(slot, sizeof(FreeSlot));
  return links;
}
void write(void* slot, const FreeSlot& links) {
  ASAN_UNPOISON_MEMORY_REGION(slot, sizeof(FreeSlot));
  new (slot) FreeSlot(links);
  ASAN_POISON_MEMORY_REGION(slot, sizeof(FreeSlot));
}

struct FreeList {
  void* first = nullptr;
  size_t count = 0;

  void push(void* slot) {
    write(slot, {.next = first, .next_batch = nullptr, .count = 0});
    first = slot, count++;
  }
  void* pop() {
    void* const slot = first;
    first = read(slot).next, count--;
    return slot;
  }
};

// What no thread holds at the moment. Never destroyed, because static UOps may outlive everything else.
struct Reserve {
  ProcessMutex mutex{LockOrder::node_memory};
  std::array<void*, kClasses> batches{};  // of free slots: the first of the newest
  std::byte* newest = nullptr;            // chunk
  std::byte* next = nullptr;              // the rest of it
  size_t left = 0;
  std::atomic<uint32_t> chunks{0};  // read without the mutex
  std::vector<uint32_t>
      free_numbers;  // of chunks that stood alone and were given back; room for all that there are

  void put(size_t size_class, const FreeList& batch) {
    if (batch.first == nullptr) return;
    write(batch.first, {read(batch.first).next, batches[size_class], batch.count});
    batches[size_class] = batch.first;
  }
};
Reserve& reserve() {
  static auto* const instance = new Reserve;  // NOLINT(cppcoreguidelines-owning-memory): see above
  return *instance;
}

// Memory of whole chunks; the one that begins at `before` gets a number.
std::byte* new_chunk(Reserve& r, size_t before, std::byte* older) {
  if (r.free_numbers.capacity() <= r.chunks) r.free_numbers.reserve(2 * r.chunks + 16);
  auto* memory = static_cast<std::byte*>(::operator new(before + kChunk, std::align_val_t(kChunk)));
  madvise(memory, before + kChunk, MADV_HUGEPAGE);  // walks over large graphs miss less; no matter if refused
  uint32_t number = r.chunks;
  if (r.free_numbers.empty()) {
    r.chunks++;
  } else {
    number = r.free_numbers.back();
    r.free_numbers.pop_back();
  }
  new (memory + before + kHalf - kUnit) ChunkEnd{number * static_cast<uint32_t>(kHalf / kUnit), older};
  return memory;
}

// Slots of the newest chunk, at most `count`.
FreeList new_slots(Reserve& r, size_t size, size_t count) {
  FreeList made;
  for (; made.count < count && r.left >= size; r.left -= size, r.next += size) made.push(r.next);
  return made;
}

// At least one. What is left of a chunk that is too small for it becomes slots of one unit.
FreeList take(size_t size_class) {
  Reserve& r = reserve();
  const std::lock_guard lock(r.mutex);
  if (void* const first = r.batches[size_class]; first != nullptr) {
    const FreeSlot links = read(first);
    r.batches[size_class] = links.next_batch;
    return {first, links.count};
  }
  const size_t size = slot_bytes(size_class);
  if (r.left < size) {
    std::byte* const chunk = new_chunk(r, 0, r.newest);
    r.put(0, new_slots(r, kUnit, r.left / kUnit));
    r.newest = r.next = chunk;
    r.left = kUnitsInChunk * kUnit;
    ASAN_POISON_MEMORY_REGION(r.next, r.left);
    ASAN_POISON_MEMORY_REGION(r.next + kHalf, r.left);
  }
  return new_slots(r, size, size_class < 2 ? kBatch : 1);
}

void give_back(FreeList& batch, size_t size_class) {
  Reserve& r = reserve();
  const std::lock_guard lock(r.mutex);
  r.put(size_class, std::exchange(batch, {}));
}

// Of one class, in one thread: a full batch is put aside before it is given back, so that a thread that frees
// and makes nodes in turn does so without the others.
struct ThreadSlots {
  FreeList now, full;
};
using FreeSlots = std::array<ThreadSlots, kClasses>;

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
    for (size_t i = 0; i < kClasses; i++) give_back(slots[i].now, i), give_back(slots[i].full, i);
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
  return new_chunk(r, bytes_before(sources), nullptr) + bytes_before(sources);
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
  ThreadSlots one;
  FreeSlots* own = thread_slots();
  ThreadSlots& slots = own ? (*own)[size_class] : one;
  if (slots.now.first == nullptr) std::swap(slots.now, slots.full);
  if (slots.now.first == nullptr) slots.now = take(size_class);
  void* slot = slots.now.pop();
  if (void* const next = slots.now.first; next != nullptr) {
    __builtin_prefetch(next, 1);
    __builtin_prefetch(static_cast<std::byte*>(next) + kHalf, 1);
  }
  if (!own) give_back(slots.now, size_class);
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
  ThreadSlots one;
  FreeSlots* own = thread_slots();
  ThreadSlots& slots = own ? (*own)[size_class] : one;
  slots.now.push(slot);
  if (!own) {
    give_back(slots.now, size_class);
  } else if (slots.now.count >= kKept) {
    give_back(slots.full, size_class);
    slots.full = std::exchange(slots.now, {});
  }
}

}  // namespace quern::detail
