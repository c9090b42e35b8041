// Interning: how nodes are made, found again, and freed.
#include "quern/ir/node/uop.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "quern/base/fork.h"
#include "quern/ir/node/derived.h"
#include "quern/ir/node/node_memory.h"
#include "quern/ir/spec/spec.h"

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

std::atomic<size_t> live{0};

// ---- the intern table
// -------------------------------------------------------------------------------------------

// One of the table's parts: open addressing with linear probing; the high bits of the hash choose the part.
// An entry is a pointer with 16 bits of the hash in its unused upper half, so that strangers are passed over
// without a look.
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
  static bool may_be(Entry entry, uint64_t hash) {
    return entry >> 48 == (hash >> 26 & 0xffff) && entry > kRemoved;
  }
  static Node* node_of(Entry entry) { return reinterpret_cast<Node*>(entry & kPointerBits); }  // NOLINT

  size_t mask() const { return entries.size() - 1; }

  // At most four fifths are used: strangers are cheap, memory is not. A table that is rebuilt gets the size
  // that suits what is alive in it.
  void make_room() {
    if ((used + 1) * 5 <= entries.size() * 4) return;
    const auto alive =
        static_cast<size_t>(std::ranges::count_if(entries, [](Entry e) { return e > kRemoved; }));
    std::vector<Entry> old(std::max<size_t>(64, std::bit_ceil(alive * 3 / 2 + 1)), kEmpty);
    old.swap(entries);
    used = alive;
    for (Entry e : old) {
      if (e <= kRemoved) continue;
      size_t i = node_of(e)->hash & mask();
      while (entries[i] != kEmpty) i = (i + 1) & mask();
      entries[i] = e;
    }
  }

  // Unless another node took its place. Marks that nothing is searched past are taken away at once.
  void remove(const Node* node) {
    const Entry mine = entry_of(node);
    size_t i = node->hash & mask();
    while (entries[i] != mine) {
      if (entries[i] == kEmpty) return;
      i = (i + 1) & mask();
    }
    entries[i] = kRemoved;
    if (entries[(i + 1) & mask()] != kEmpty) return;
    for (; entries[i] == kRemoved; i = (i - 1) & mask(), used--) entries[i] = kEmpty;
  }
};

constexpr int kShardBits = 6;
Shard& shard_of(uint64_t hash) {
  static auto* const shards = [] {
    auto* const made = new std::array<Shard, 1 << kShardBits>;  // NOLINT: never destroyed, as the reserve
    for (Shard& shard : *made) hold_in_forks(LockOrder::nodes, shard.lock);
    return made;
  }();
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
  for (const UOp& s : sources) {
    __builtin_prefetch(detail::far_half(s.node()));  // a new node asks for the ops below
    h = detail::mix(h, s.hash());
  }
  return h;
}

bool is_node(const Node* n, Op op, DType dtype, Sources sources, const Arg& arg, const Arg& tag) {
  return n->op == op && n->source_count == sources.size() && n->dtype == dtype &&
         std::equal(sources.begin(), sources.end(), n->sources(),
                    [](const UOp& a, const UOp& b) { return same(a, b); }) &&
         n->far().arg == arg && (n->far().tag ? *n->far().tag == tag : tag.none());
}

// A reference, unless the count is zero already: then the node is being freed by another thread.
bool try_retain(Node* n) {
  uint32_t count = n->refs.load(std::memory_order_relaxed);
  while (count != 0)
    if (n->refs.compare_exchange_weak(count, count + 1, std::memory_order_acquire)) return true;
  return false;
}

Node* new_node(uint64_t hash, Op op, DType dtype, Sources sources, Arg arg, Arg tag) {
  auto kept_tag = tag.none() ? nullptr : std::make_unique<const Arg>(std::move(tag));
  void* memory = detail::allocate_node(sources.size());
  live.fetch_add(1, std::memory_order_relaxed);
  OpSet below = op;
  auto* source = static_cast<UOp*>(memory) - sources.size();
  for (const UOp& s : sources) {
    new (source++) UOp(s);
    below |= s.ops_below();
  }
  auto* node = new (memory) Node{.refs{1},
                                 .source_count = static_cast<uint32_t>(sources.size()),
                                 .op = op,
                                 .bounds_known{0},
                                 .simplest{0},
                                 .dtype = dtype,
                                 .hash = hash};
  new (detail::far_half(node)) detail::Far{.arg = std::move(arg),
                                           .tag = std::move(kept_tag),
                                           .below = below,
                                           .bounds_min{0},
                                           .bounds_max{0},
                                           .derived{nullptr}};
  return node;
}

}  // namespace

UOp UOp::make(Op op, DType dtype, Sources sources, Arg arg, Arg tag) {
  for (const UOp& s : sources)
    if (s.node() == nullptr)
      throw Error(std::string(quern::name(op)) + ": a source is empty (a UOp that was never set)");
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

namespace {
using IdentityFreed = void (*)(int64_t) noexcept;
constinit std::array<std::atomic<IdentityFreed>, 2> identity_freed{};
}  // namespace
void on_identity_freed(void (*callback)(int64_t) noexcept) {
  for (auto& slot : identity_freed) {
    IdentityFreed none = nullptr;
    if (slot.compare_exchange_strong(none, callback)) return;
  }
  QUERN_CHECK(false, "too many want to know which identities are freed");
}
void no_more_on_identity_freed(void (*callback)(int64_t) noexcept) {
  for (auto& slot : identity_freed) {
    IdentityFreed known = callback;
    if (slot.compare_exchange_strong(known, nullptr)) return;
  }
}

// Frees the node and whatever is only held by it. Calls that arise from within (from the sources, or from
// facts that hold nodes) are queued on the thread, not nested.
void detail::destroy(Node* node) noexcept {
  static thread_local Node* queue = nullptr;
  static thread_local bool busy = false;
  auto queue_link = [](Node* n) -> std::atomic<int64_t>& {
    return n->far().bounds_min;
  };  // unused from here on
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
    Derived* derived = n->far().derived.load(std::memory_order_acquire);
    if (derived && n->op == Op::RANGE) forget_itself(n, *derived);
    delete derived;  // NOLINT(cppcoreguidelines-owning-memory)
    if (n->op == Op::UNIQUE && n->far().arg.kind() == ArgKind::Int)  // else it was refused, and is nobody's
      for (const auto& slot : identity_freed)
        if (auto* callback = slot.load(std::memory_order_acquire)) callback(n->far().arg.integer());
    const size_t count = n->source_count;
    auto* sources = const_cast<UOp*>(n->sources());
    for (size_t i = 0; i < count; i++) sources[i].~UOp();
    n->far().~Far();
    n->~Node();
    free_node(n, count);
    live.fetch_sub(1, std::memory_order_relaxed);
  }
  busy = false;
}

size_t live_nodes() { return live.load(std::memory_order_relaxed); }

// ---- derived facts -------------------------------------------------------------------------------------

detail::Derived& detail::derived_of(const Node* node) {
  Derived* known = node->far().derived.load(std::memory_order_acquire);
  if (known) return *known;
  auto made = std::make_unique<Derived>();
  if (node->far().derived.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
    return *made.release();
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
  if (!derived_of(u.node()).ranges.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
    return;
  static_cast<void>(made.release());               // NOLINT(bugprone-unused-return-value): published
  if (u.op() == Op::RANGE) UOpAccess::uncount(u);  // not the last: the caller's handle is counted
}

}  // namespace quern
