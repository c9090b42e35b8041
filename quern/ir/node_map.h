// Tables from nodes to values that live for one walk over a graph. A node's id is dense, so a table is an
// array: a thread keeps a few of these arrays for its next walks.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "quern/ir/node_memory.h"
#include "quern/ir/uop.h"

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

// A borrowed stack that goes back by itself. Fresh memory is dear: a page fault takes as long as many steps.
class BorrowedStack {
 public:
  BorrowedStack() : stack_(borrow_stack()), data_(stack_->entries.data()) {}
  BorrowedStack(const BorrowedStack&) = delete;
  BorrowedStack& operator=(const BorrowedStack&) = delete;
  ~BorrowedStack() { give_back(std::move(stack_)); }

  bool empty() const { return size_ == 0; }
  uintptr_t pop() { return data_[--size_]; }
  // Room for that many more, which are put at end() and then added.
  uintptr_t* room(size_t more) {
    if (size_ + more > stack_->entries.size()) [[unlikely]]
      grow(more);
    return data_ + size_;
  }
  void add(size_t count) { size_ += count; }

 private:
  [[gnu::noinline]] void grow(size_t more) {
    stack_->entries.resize(2 * (size_ + more) + 64);
    data_ = stack_->entries.data();
  }
  std::unique_ptr<WalkStack> stack_;
  uintptr_t* data_;
  size_t size_ = 0;
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
template <class Enter, class Visit>
void walk(const UOp& root, const Enter& enter, const Visit& visit) {
  NodeSet seen;
  detail::BorrowedStack stack;
  constexpr uintptr_t kDone = 1;
  auto add = [&](uintptr_t entry) { *stack.room(1) = entry, stack.add(1); };
  add(reinterpret_cast<uintptr_t>(root.node()));  // NOLINT
  while (!stack.empty()) {
    const uintptr_t entry = stack.pop();
    const auto* node = reinterpret_cast<const detail::Node*>(entry & ~kDone);  // NOLINT
    const UOp& u = detail::borrowed_handle(node);
    if ((entry & kDone) != 0) {
      visit(u);
      continue;
    }
    if (!seen.insert(u)) continue;
    const Sources sources = u.src();
    if (sources.empty() || !enter(u)) {
      visit(u);
      continue;
    }
    detail::prefetch_neighbours(u.node());
    uintptr_t* top = stack.room(sources.size() + 1);
    const uintptr_t* bottom = top;
    *top++ = entry | kDone;
    for (size_t i = sources.size(); i-- > 0;) {  // the first comes off first; no branch on what was seen
      __builtin_prefetch(sources[i].node());
      *top = reinterpret_cast<uintptr_t>(sources[i].node());  // NOLINT
      top += seen.contains(sources[i]) ? 0 : 1;
    }
    stack.add(static_cast<size_t>(top - bottom));
  }
}
template <class Visit>
void walk(const UOp& root, const Visit& visit) {
  walk(root, [](const UOp&) { return true; }, visit);
}

}  // namespace quern
