// Tables from nodes to values that live for one walk over a graph. A node's id is dense, so a table is an
// array: a thread keeps a few of these arrays for its next walks.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "quern/ir/node/node_memory.h"
#include "quern/ir/node/uop.h"

namespace quern {

namespace detail {

struct Slots {
  struct Slot {
    uint32_t stamp = 0;
    uint32_t position = 0;
  };
  std::vector<Slot> slots;
  uint32_t stamp = 0;
};

// A bit for each id; the words that are not 0 are listed, so that only these have to be cleared.
struct Bits {
  std::vector<uint64_t> words;
  std::vector<uint32_t> touched;
};

// What a walk has still to do: nodes to enter, and nodes whose sources are done, marked by the last bit.
struct WalkStack {
  std::vector<uintptr_t> entries;
};

std::unique_ptr<Slots> borrow_slots();
std::unique_ptr<Bits> borrow_bits();
std::unique_ptr<WalkStack> borrow_stack();
std::unique_ptr<NodeList::Nodes> borrow_nodes();
void give_back(std::unique_ptr<Slots> slots);
void give_back(std::unique_ptr<Bits> bits);
void give_back(std::unique_ptr<WalkStack> stack);
void give_back(std::unique_ptr<NodeList::Nodes> nodes);

// The memory of one walk: borrowed, because fresh memory is dear (a page fault takes as long as many steps).
class WalkMemory {
 public:
  WalkMemory() : bits_(borrow_bits()), stack_(borrow_stack()) {
    if (bits_->words.size() < id_limit() / 64) bits_->words.resize(id_limit() / 64);
  }
  WalkMemory(const WalkMemory&) = delete;
  WalkMemory& operator=(const WalkMemory&) = delete;
  ~WalkMemory() {
    give_back(std::move(bits_));
    give_back(std::move(stack_));
  }

  uint64_t* words() { return bits_->words.data(); }  // a bit for each node that there is
  [[gnu::noinline]] void touch(uint32_t word) { bits_->touched.push_back(word); }

  struct Stack {
    uintptr_t *base, *top, *end;
    size_t room() const { return static_cast<size_t>(end - top); }
  };
  Stack stack() {
    auto& e = stack_->entries;
    return {e.data(), e.data(), e.data() + e.size()};
  }
  [[gnu::noinline]] Stack larger(Stack s, size_t more) {
    const auto size = static_cast<size_t>(s.top - s.base);
    stack_->entries.resize(2 * (size + more) + 64);
    auto& e = stack_->entries;
    return {e.data(), e.data() + size, e.data() + e.size()};
  }

 private:
  std::unique_ptr<Bits> bits_;
  std::unique_ptr<WalkStack> stack_;
};

}  // namespace detail

// Keys must stay alive while they are in the map (a freed node's id may be given to another node).
template <class T>
class NodeMap {
 public:
  NodeMap() : table_(detail::borrow_slots()), stamp_(table_->stamp) {}
  NodeMap(const NodeMap&) = delete;
  NodeMap& operator=(const NodeMap&) = delete;
  ~NodeMap() { detail::give_back(std::move(table_)); }

  T* find(const UOp& key) {
    const uint32_t id = detail::id_of(key.node());
    if (id >= table_->slots.size() || table_->slots[id].stamp != stamp_) return nullptr;
    return &values_[table_->slots[id].position];
  }
  const T* find(const UOp& key) const { return const_cast<NodeMap*>(this)->find(key); }
  bool contains(const UOp& key) const { return find(key) != nullptr; }

  // Adds the value unless the key is there; says whether it was added. References stay valid until the next
  // emplace.
  template <class... Args>
  std::pair<T*, bool> emplace(const UOp& key, Args&&... args) {
    const uint32_t id = detail::id_of(key.node());
    if (id >= table_->slots.size()) table_->slots.resize(id + id / 2 + 64);
    auto& slot = table_->slots[id];
    if (slot.stamp == stamp_) return {&values_[slot.position], false};
    slot = {stamp_, static_cast<uint32_t>(values_.size())};
    values_.emplace_back(std::forward<Args>(args)...);
    return {&values_.back(), true};
  }
  T& operator[](const UOp& key) { return *emplace(key).first; }

  size_t size() const { return values_.size(); }
  void reserve(size_t n) { values_.reserve(n); }

 private:
  std::unique_ptr<detail::Slots> table_;
  uint32_t stamp_;
  std::vector<T> values_;
};

class NodeSet {
 public:
  NodeSet() : bits_(detail::borrow_bits()), words_(bits_->words.data()), size_(bits_->words.size()) {}
  NodeSet(const NodeSet&) = delete;
  NodeSet& operator=(const NodeSet&) = delete;
  ~NodeSet() { detail::give_back(std::move(bits_)); }

  bool contains(const UOp& key) const {
    const uint32_t id = detail::id_of(key.node());
    return id / 64 < size_ && (words_[id / 64] >> id % 64 & 1) != 0;
  }
  [[gnu::always_inline]] bool insert(const UOp& key) {
    const uint32_t id = detail::id_of(key.node()), at = id / 64;
    if (at >= size_) [[unlikely]]
      grow(at);
    uint64_t& word = words_[at];
    const uint64_t bit = uint64_t{1} << id % 64;
    if ((word & bit) != 0) return false;
    if (word == 0) [[unlikely]]
      bits_->touched.push_back(at);
    word |= bit;
    return true;
  }

 private:
  [[gnu::noinline]] void grow(uint32_t word) {
    bits_->words.resize(word + word / 2 + 16);
    words_ = bits_->words.data();
    size_ = bits_->words.size();
  }
  std::unique_ptr<detail::Bits> bits_;
  uint64_t* words_;  // of bits_, at hand
  size_t size_;
};

// Calls visit(node) for every node below root, sources before users, without holding them: the handle it gets
// is good for the call only. `enter(node)` says whether to walk into the node's sources.
// What it works with are variables of its own, which stay in registers. It asks little: whether a node was
// seen only when it comes off the stack, and not whether it has sources at all.
template <class Enter, class Visit>
void walk(const UOp& root, const Enter& enter, const Visit& visit) {
  detail::WalkMemory memory;
  uint64_t* const words = memory.words();
  detail::WalkMemory::Stack stack = memory.stack();
  constexpr uintptr_t kDone = 1;
  if (stack.room() < 1) stack = memory.larger(stack, 1);
  *stack.top++ = reinterpret_cast<uintptr_t>(root.node());  // NOLINT
  while (stack.top != stack.base) {
    const uintptr_t entry = *--stack.top;
    const auto* node = reinterpret_cast<const detail::Node*>(entry & ~kDone);  // NOLINT
    const UOp& u = detail::borrowed_handle(node);
    if ((entry & kDone) != 0) {
      visit(u);
      continue;
    }
    const uint32_t id = detail::id_of(node);
    uint64_t& word = words[id / 64];
    const uint64_t bit = uint64_t{1} << id % 64;
    if ((word & bit) != 0) continue;
    if (word == 0) [[unlikely]]
      memory.touch(id / 64);
    word |= bit;
    const Sources sources = u.src();
    if (!enter(u)) {
      visit(u);
      continue;
    }
    detail::prefetch_neighbours(node);
    if (stack.room() < sources.size() + 1) [[unlikely]]
      stack = memory.larger(stack, sources.size() + 1);
    *stack.top++ = entry | kDone;
    for (size_t i = sources.size(); i-- > 0;) {  // the first comes off first
      __builtin_prefetch(sources[i].node());
      *stack.top++ = reinterpret_cast<uintptr_t>(sources[i].node());  // NOLINT
    }
  }
}
template <class Visit>
void walk(const UOp& root, const Visit& visit) {
  walk(root, [](const UOp&) { return true; }, visit);
}

}  // namespace quern
