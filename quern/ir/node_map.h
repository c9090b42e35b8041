// Tables from nodes to values that live for one walk over a graph. A node's id is dense, so a table is an array: a
// thread keeps a few of these arrays for its next walks.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

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

std::unique_ptr<Slots> borrow_slots();
std::unique_ptr<Bits> borrow_bits();
void give_back(std::unique_ptr<Slots> slots);
void give_back(std::unique_ptr<Bits> bits);

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
    const uint32_t id = key.node()->id;
    if (id >= table_->slots.size() || table_->slots[id].stamp != stamp_) return nullptr;
    return &values_[table_->slots[id].position];
  }
  const T* find(const UOp& key) const { return const_cast<NodeMap*>(this)->find(key); }
  bool contains(const UOp& key) const { return find(key) != nullptr; }

  // Adds the value unless the key is there; says whether it was added. References stay valid until the next emplace.
  template <class... Args>
  std::pair<T*, bool> emplace(const UOp& key, Args&&... args) {
    const uint32_t id = key.node()->id;
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
  NodeSet() : bits_(detail::borrow_bits()) {}
  NodeSet(const NodeSet&) = delete;
  NodeSet& operator=(const NodeSet&) = delete;
  ~NodeSet() { detail::give_back(std::move(bits_)); }

  bool contains(const UOp& key) const {
    const uint32_t id = key.node()->id;
    return id / 64 < bits_->words.size() && (bits_->words[id / 64] >> id % 64 & 1) != 0;
  }
  bool insert(const UOp& key) {
    const uint32_t id = key.node()->id;
    if (id / 64 >= bits_->words.size()) bits_->words.resize(id / 32 + 16);
    uint64_t& word = bits_->words[id / 64];
    if ((word >> id % 64 & 1) != 0) return false;
    if (word == 0) bits_->touched.push_back(id / 64);
    word |= uint64_t{1} << id % 64;
    return true;
  }

 private:
  std::unique_ptr<detail::Bits> bits_;
};

// Calls visit(node) for every node below root, sources before users, without holding them. `enter(node)` says
// whether to walk into the node's sources.
template <class Enter, class Visit>
void walk(const UOp& root, Enter enter, Visit visit) {
  struct Frame {
    const UOp* node;
    uint32_t next, end;
  };
  NodeSet seen;
  std::vector<Frame> stack;
  auto push = [&](const UOp& u) {
    if (seen.insert(u)) stack.push_back({&u, 0, enter(u) ? static_cast<uint32_t>(u.src().size()) : 0});
  };
  push(root);
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next < top.end) {
      push(top.node->src(top.next++));
    } else {
      const UOp* done = top.node;
      stack.pop_back();
      visit(*done);
    }
  }
}
template <class Visit>
void walk(const UOp& root, Visit visit) {
  walk(root, [](const UOp&) { return true; }, visit);
}

}  // namespace quern
