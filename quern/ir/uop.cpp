// Interning: how nodes are made, found again, and freed.
#include "quern/ir/uop.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "quern/ir/derived.h"
#include "quern/ir/spec.h"

namespace quern {

// The few functions that may turn a node into a handle.
struct UOpAccess {
  static UOp adopt(detail::Node* node) { return UOp(node); }
  static void forget(UOp& u) { u.node_ = nullptr; }  // without giving its reference back
  static void uncount(const UOp& u) { u.node_->refs.fetch_sub(1, std::memory_order_release); }
};

namespace {

using detail::Node;

// Held for a handful of instructions, so waiting threads spin.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire))
      while (flag_.test(std::memory_order_relaxed)) std::this_thread::yield();
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

// ---- memory: slots by number of sources, and dense ids ----------------------------------------------------------

constexpr size_t kSmallSources = 8;  // nodes with more sources come straight from operator new

// Sources, then the node; whole cache lines.
constexpr size_t kLine = 64;
size_t node_bytes(size_t sources) { return (sizeof(Node) + sources * sizeof(UOp) + kLine - 1) / kLine * kLine; }

struct FreeList {
  std::array<std::vector<void*>, kSmallSources + 1> slots;
  std::vector<uint32_t> ids;
};

// What no thread holds at the moment. Never destroyed, because static UOps may outlive everything else.
struct Reserve {
  std::mutex mutex;
  FreeList free;
  uint32_t next_id = 0;
  std::array<size_t, kSmallSources + 1> made{};  // how many slots there are
};
Reserve& reserve() {
  static auto* const instance = new Reserve;  // NOLINT(cppcoreguidelines-owning-memory): see above
  return *instance;
}

constexpr size_t kBatch = 256;
constexpr size_t kHugePage = size_t{1} << 21;

void take_ids(std::vector<uint32_t>& ids) {
  Reserve& r = reserve();
  const std::lock_guard lock(r.mutex);
  while (ids.size() < kBatch && !r.free.ids.empty()) ids.push_back(r.free.ids.back()), r.free.ids.pop_back();
  if (ids.empty()) {
    for (size_t i = kBatch; i-- > 0;) ids.push_back(r.next_id + static_cast<uint32_t>(i));
    r.next_id += kBatch;
  }
}

void take_slots(std::vector<void*>& slots, size_t sources) {
  Reserve& r = reserve();
  const std::lock_guard lock(r.mutex);
  auto& spare = r.free.slots[sources];
  if (spare.empty()) {  // as many again as there are, up to a huge page at a time
    const size_t size = node_bytes(sources), count = std::clamp(r.made[sources], kBatch, kHugePage / size);
    const bool huge = count == kHugePage / size;
    void* block = ::operator new(huge ? kHugePage : count * size, std::align_val_t(huge ? kHugePage : kLine));
    if (huge) madvise(block, kHugePage, MADV_HUGEPAGE);  // fewer misses in large graphs; no matter if refused
    for (size_t i = count; i-- > 0;) spare.push_back(static_cast<std::byte*>(block) + i * size);
    r.made[sources] += count;
  }
  while (slots.size() < kBatch && !spare.empty()) slots.push_back(spare.back()), spare.pop_back();
}

// Gives the second half of a list back, so that a thread that only frees does not hoard.
template <class T>
void spill(std::vector<T>& from, std::vector<T>& to, size_t keep) {
  const std::lock_guard lock(reserve().mutex);
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(keep), from.end());
  from.resize(keep);
}

// Lists that go back to the reserve at the end of their life.
struct LocalFree {
  FreeList lists;
  LocalFree() = default;
  LocalFree(const LocalFree&) = delete;
  LocalFree& operator=(const LocalFree&) = delete;
  ~LocalFree() {
    for (size_t i = 0; i <= kSmallSources; i++) spill(lists.slots[i], reserve().free.slots[i], 0);
    spill(lists.ids, reserve().free.ids, 0);
  }
};

// A thread's own lists; none after the thread's end (static destructors run then).
thread_local FreeList* local_free = nullptr;
thread_local bool local_free_gone = false;
struct ThreadFree : LocalFree {
  ThreadFree() { local_free = &lists; }
  ~ThreadFree() {
    local_free = nullptr;
    local_free_gone = true;
  }
};
FreeList* free_lists() {
  if (local_free == nullptr && !local_free_gone) static thread_local ThreadFree made;
  return local_free;
}

std::atomic<size_t> live{0};

// Takes from the lists given; whatever they lack comes from the reserve in batches.
std::pair<void*, uint32_t> allocate_from(FreeList& free, size_t sources) {
  if (free.ids.empty()) take_ids(free.ids);
  const uint32_t id = free.ids.back();
  free.ids.pop_back();
  if (sources > kSmallSources) return {::operator new(node_bytes(sources), std::align_val_t(kLine)), id};
  auto& slots = free.slots[sources];
  if (slots.empty()) take_slots(slots, sources);
  void* memory = slots.back();
  slots.pop_back();
  return {memory, id};
}

void deallocate_to(FreeList& free, void* memory, size_t sources, uint32_t id, size_t keep) {
  free.ids.push_back(id);
  if (free.ids.size() > 2 * keep) spill(free.ids, reserve().free.ids, keep);
  if (sources > kSmallSources) return ::operator delete(memory, std::align_val_t(kLine));
  auto& slots = free.slots[sources];
  slots.push_back(memory);
  if (slots.size() > 2 * keep) spill(slots, reserve().free.slots[sources], keep);
}

// Uninitialised memory for a node, and an id for it.
std::pair<void*, uint32_t> allocate(size_t sources) {
  live.fetch_add(1, std::memory_order_relaxed);
  if (FreeList* lists = free_lists()) return allocate_from(*lists, sources);
  LocalFree for_once;
  return allocate_from(for_once.lists, sources);
}

void deallocate(void* memory, size_t sources, uint32_t id) {
  live.fetch_sub(1, std::memory_order_relaxed);
  if (FreeList* lists = free_lists()) return deallocate_to(*lists, memory, sources, id, 16 * kBatch);
  FreeList for_once;
  deallocate_to(for_once, memory, sources, id, 0);
}

// ---- the intern table -------------------------------------------------------------------------------------------

// One of the table's parts: open addressing with linear probing; the high bits of the hash choose the part. An entry
// is a pointer with 16 bits of the hash in its unused upper half, so that strangers are passed over without a look.
struct alignas(64) Shard {
  using Entry = uint64_t;
  static constexpr Entry kEmpty = 0, kRemoved = 1;
  static constexpr uint64_t kPointerBits = (uint64_t{1} << 48) - 1;

  SpinLock lock;
  std::vector<Entry> entries = std::vector<Entry>(64, kEmpty);
  size_t used = 0;  // removed entries count too, until the table is rebuilt

  static Entry entry_of(const Node* node) {
    return reinterpret_cast<uint64_t>(node) | (node->hash >> 26 << 48);  // NOLINT: packed on purpose
  }
  static bool may_be(Entry entry, uint64_t hash) { return entry >> 48 == (hash >> 26 & 0xffff) && entry > kRemoved; }
  static Node* node_of(Entry entry) { return reinterpret_cast<Node*>(entry & kPointerBits); }  // NOLINT

  size_t mask() const { return entries.size() - 1; }

  // At most two thirds are used. A table that is rebuilt gets the size that suits what is alive in it.
  void make_room() {
    if ((used + 1) * 3 <= entries.size() * 2) return;
    const auto alive = static_cast<size_t>(std::ranges::count_if(entries, [](Entry e) { return e > kRemoved; }));
    std::vector<Entry> old(std::max<size_t>(64, std::bit_ceil(alive * 2 + 1)), kEmpty);
    old.swap(entries);
    used = alive;
    for (Entry e : old) {
      if (e <= kRemoved) continue;
      size_t i = node_of(e)->hash & mask();
      while (entries[i] != kEmpty) i = (i + 1) & mask();
      entries[i] = e;
    }
  }

  // Unless another node took its place.
  void remove(const Node* node) {
    const Entry mine = entry_of(node);
    for (size_t i = node->hash & mask(); entries[i] != kEmpty; i = (i + 1) & mask())
      if (entries[i] == mine) {
        entries[i] = kRemoved;
        return;
      }
  }
};

constexpr int kShardBits = 6;
Shard& shard_of(uint64_t hash) {
  static auto* const shards = new std::array<Shard, 1 << kShardBits>;  // NOLINT: never destroyed, as the reserve
  return (*shards)[hash >> (64 - kShardBits)];
}

uint64_t hash_dtype(DType d) {
  const uint64_t small = static_cast<uint64_t>(d.kind()) | (d.is_ptr() ? 0x100u : 0u) |
                         (static_cast<uint64_t>(d.space()) << 9) | (static_cast<uint64_t>(d.lanes()) << 16);
  return small ^ (static_cast<uint64_t>(d.size()) << 32) ^ (static_cast<uint64_t>(d.size()) >> 32);
}

uint64_t hash_node(Op op, DType dtype, Sources sources, const Arg& arg, const Arg& tag) {
  uint64_t h = detail::mix(static_cast<uint64_t>(op) + 1, hash_dtype(dtype));
  h = detail::mix(h, arg.hash());
  if (!tag.none()) h = detail::mix(h, tag.hash() + 1);
  for (const UOp& s : sources) h = detail::mix(h, s.hash());
  return h;
}

bool is_node(const Node* n, Op op, DType dtype, Sources sources, const Arg& arg, const Arg& tag) {
  return n->op == op && n->source_count == sources.size() && n->dtype == dtype &&
         std::equal(sources.begin(), sources.end(), n->sources(), [](const UOp& a, const UOp& b) { return same(a, b); }) &&
         n->arg == arg && n->tag == tag;
}

// A reference, unless the count is zero already: then the node is being freed by another thread.
bool try_retain(Node* n) {
  uint32_t count = n->refs.load(std::memory_order_relaxed);
  while (count != 0)
    if (n->refs.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) return true;
  return false;
}

Node* new_node(uint64_t hash, Op op, DType dtype, Sources sources, Arg arg, Arg tag) {
  auto [memory, id] = allocate(sources.size());
  OpSet below = op;
  auto* first = static_cast<UOp*>(memory);
  for (size_t i = 0; i < sources.size(); i++) {
    new (first + i) UOp(sources[i]);
    below |= sources[i].ops_below();
  }
  auto* n = new (first + sources.size()) Node{.refs{1},
                              .id = id,
                              .source_count = static_cast<uint32_t>(sources.size()),
                              .op = op,
                              .bounds_known{0},
                              .dtype = dtype,
                              .hash = hash,
                              .arg = std::move(arg),
                              .tag = std::move(tag),
                              .below = below,
                              .bounds_min{0},
                              .bounds_max{0},
                              .derived{nullptr}};
  return n;
}

}  // namespace

UOp UOp::make(Op op, DType dtype, Sources sources, Arg arg, Arg tag) {
  for (const UOp& s : sources)
    if (s.node() == nullptr) throw Error(std::string(quern::name(op)) + ": a source is empty (a UOp that was never set)");
  const uint64_t hash = hash_node(op, dtype, sources, arg, tag);
  Shard& shard = shard_of(hash);
  UOp made;
  {
    const std::lock_guard lock(shard.lock);
    shard.make_room();
    size_t i = hash & shard.mask();
    std::optional<size_t> place;  // where the new node goes: the first that is free or was left
    for (; shard.entries[i] != Shard::kEmpty; i = (i + 1) & shard.mask()) {
      if (shard.entries[i] == Shard::kRemoved && !place) place = i;
      if (!Shard::may_be(shard.entries[i], hash)) continue;
      Node* found = Shard::node_of(shard.entries[i]);
      if (found->hash != hash || !is_node(found, op, dtype, sources, arg, tag)) continue;
      if (try_retain(found)) return UOp(found);
      shard.entries[i] = Shard::kRemoved;  // dying: it will not find itself
      if (!place) place = i;
      break;
    }
    made = UOp(new_node(hash, op, dtype, sources, std::move(arg), std::move(tag)));
    shard.entries[place.value_or(i)] = Shard::entry_of(made.node_);
    if (!place) shard.used++;
  }
  if (checks_every_node()) check_node(made);
  return made;
}

namespace {
// See publish_ranges: the entry of a RANGE in its own list holds no reference.
void forget_itself(const Node* range, const detail::Derived& derived) {
  const UOps* open = derived.ranges.load(std::memory_order_acquire);
  if (!open) return;
  for (UOp& r : const_cast<UOps&>(*open))
    if (r.node() == range) UOpAccess::forget(r);
}
}  // namespace

// Frees the node and whatever is only held by it. Calls that arise from within (from the sources, or from facts
// that hold nodes) are queued on the thread, not nested.
void detail::destroy(Node* node) noexcept {
  static thread_local Node* queue = nullptr;
  static thread_local bool busy = false;
  auto queue_link = [](Node* n) -> std::atomic<int64_t>& { return n->bounds_min; };  // unused from here on
  {
    Shard& shard = shard_of(node->hash);
    const std::lock_guard lock(shard.lock);
    shard.remove(node);
  }
  queue_link(node).store(reinterpret_cast<int64_t>(queue), std::memory_order_relaxed);  // NOLINT
  queue = node;
  if (busy) return;
  busy = true;
  while (queue) {
    Node* n = queue;
    queue = reinterpret_cast<Node*>(queue_link(n).load(std::memory_order_relaxed));  // NOLINT
    Derived* derived = n->derived.load(std::memory_order_acquire);
    if (derived && n->op == Op::RANGE) forget_itself(n, *derived);
    delete derived;  // NOLINT(cppcoreguidelines-owning-memory)
    const size_t count = n->source_count;
    const uint32_t id = n->id;
    auto* first = const_cast<UOp*>(n->sources());
    for (size_t i = 0; i < count; i++) first[i].~UOp();
    n->~Node();
    deallocate(first, count, id);
  }
  busy = false;
}

size_t live_nodes() { return live.load(std::memory_order_relaxed); }

// ---- derived facts -------------------------------------------------------------------------------------

detail::Derived& detail::derived_of(const Node* node) {
  Derived* known = node->derived.load(std::memory_order_acquire);
  if (known) return *known;
  auto made = std::make_unique<Derived>();
  if (node->derived.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *known;
}

const UOps& detail::publish(std::atomic<const UOps*>& slot, UOps value) {
  auto made = std::make_unique<UOps>(std::move(value));
  const UOps* known = nullptr;
  if (slot.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *known;
}

void detail::publish_ranges(const UOp& u, UOps open) {
  auto made = std::make_unique<UOps>(std::move(open));
  const UOps* known = nullptr;
  if (!derived_of(u.node()).ranges.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return;
  (void)made.release();
  if (u.op() == Op::RANGE) UOpAccess::uncount(u);  // not the last: the caller's handle is counted
}

}  // namespace quern
