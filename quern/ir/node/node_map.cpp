#include "quern/ir/node/node_map.h"

#include <array>

namespace quern::detail {
namespace {

// A thread's spare tables of one kind: as many as walks within walks may need, and no memory is asked for to
// give one back. What still walks when they are gone (at the program's end) makes its own.
template <class Table>
class Spare {
 public:
  static std::unique_ptr<Table> take() {
    if (gone_ || tables().count == 0) return std::make_unique<Table>();
    return std::move(tables().list[--tables().count]);
  }
  static void put(std::unique_ptr<Table> table) noexcept {
    if (!gone_ && tables().count < kMost) tables().list[tables().count++] = std::move(table);
  }

 private:
  static constexpr size_t kMost = 32;
  struct Tables {
    std::array<std::unique_ptr<Table>, kMost> list;
    size_t count = 0;
    Tables() = default;
    Tables(const Tables&) = delete;
    Tables& operator=(const Tables&) = delete;
    ~Tables() { gone_ = true; }
  };
  static Tables& tables() {
    static thread_local Tables tables;
    return tables;
  }
  static inline thread_local bool gone_ = false;
};

}  // namespace

std::unique_ptr<Slots> borrow_slots() {
  auto table = Spare<Slots>::take();
  if (++table->stamp == 0) {  // after 2^32 walks the stamps start over
    table->slots.assign(table->slots.size(), {});
    table->stamp = 1;
  }
  return table;
}
void give_back(std::unique_ptr<Slots> slots) { Spare<Slots>::put(std::move(slots)); }

std::unique_ptr<Bits> borrow_bits() { return Spare<Bits>::take(); }
void give_back(std::unique_ptr<Bits> bits) {
  for (uint32_t word : bits->touched) bits->words[word] = 0;
  bits->touched.clear();
  Spare<Bits>::put(std::move(bits));
}

std::unique_ptr<WalkStack> borrow_stack() { return Spare<WalkStack>::take(); }
void give_back(std::unique_ptr<WalkStack> stack) { Spare<WalkStack>::put(std::move(stack)); }

std::unique_ptr<NodeList::Nodes> borrow_nodes() { return Spare<NodeList::Nodes>::take(); }
void give_back(std::unique_ptr<NodeList::Nodes> nodes) {
  nodes->clear();
  Spare<NodeList::Nodes>::put(std::move(nodes));
}

}  // namespace quern::detail
