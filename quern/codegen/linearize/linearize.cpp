#include "quern/codegen/linearize/linearize.h"

#include <fmt/format.h>

#include <memory>
#include <ranges>

#include "quern/ir/node/node_map.h"

namespace quern {
namespace {

// A loop, or the program itself: what runs in it, in order. A loop inside stands where its END does, which is
// behind everything that it needs and before everything that needs it, since a topological order has it so.
struct Region {
  const Region* parent = nullptr;
  int depth = 0;
  UOp range;
  std::vector<UOp> items;
};

class Linearizer {
 public:
  explicit Linearizer(const UOp& sink) : sink_(sink), order_(sink.toposort()) {}

  LinearProgram run() {
    find_regions();
    find_users();
    for (const UOp& u : order_) {
      if (is_listed(u) && !waits(u)) home_of(u).items.push_back(u);
      if (u.op() == Op::GROUP && !waits(u)) place_stores(u);
    }
    emit_all();
    if (sink_.arg().none()) return {.name = "", .list = std::move(list_)};
    const KernelArg& arg = sink_.arg().kernel();
    return {.name = arg.name, .list = std::move(list_), .opts = arg.opts};
  }

 private:
  // Outer ENDs come last in the order, so that going backwards parents are known first.
  void find_regions() {
    for (size_t i = order_.size(); i-- > 0;) {
      const UOp& u = order_[i];
      if (u.op() != Op::END) continue;
      auto region = std::make_unique<Region>();
      region->range = u.src(1);
      const auto [at, added] = regions_.emplace(u.src(1), std::move(region));
      QUERN_CHECK(added, "a range that two ENDs close:\n" + u.text());
    }
    for (size_t i = order_.size(); i-- > 0;) {
      const UOp& u = order_[i];
      if (u.op() != Op::END) continue;
      Region& region = **regions_.find(u.src(1));
      region.parent = &home_of(u);
      region.depth = region.parent->depth + 1;
    }
  }

  // The deepest of the loops over open ranges. All of them must lie in each other.
  Region& home_of(const UOp& u) {
    Region* home = &root_;
    for (const UOp& r : u.ranges()) {
      const auto* found = regions_.find(r);
      if (found == nullptr) throw Error(fmt::format("kernel: range {} is not closed", r.arg().range().id));
      if ((*found)->depth > home->depth) home = found->get();
    }
    return *home;
  }

  static bool is_listed(const UOp& u) {
    switch (u.op()) {
      case Op::CONST:
      case Op::AFTER:
      case Op::NOOP:
      case Op::GROUP:
      case Op::RANGE:
      case Op::SINK: return false;
      case Op::WHERE: return !u.src(2).is_invalid();
      default: return true;
    }
  }

  // The stores of a GROUP, and of GROUPs in it, wait until all values are there, if nothing but the GROUP
  // waits for them: a value may be one that they overwrite.
  void find_users() {
    for (const UOp& u : order_)
      for (const UOp& s : u.src())
        if (s.op() == Op::STORE || s.op() == Op::GROUP) users_[s] += u.op() == Op::GROUP ? 1 : kOthers;
  }
  bool waits(const UOp& u) const {
    return (u.op() == Op::STORE || u.op() == Op::GROUP) && *users_.find(u) == 1;
  }
  void place_stores(const UOp& group) {
    UOps stack{group};
    while (!stack.empty()) {
      const UOp u = stack.back();
      stack.pop_back();
      if (u.op() == Op::STORE)
        home_of(u).items.push_back(u);
      else
        for (const UOp& s : u.src() | std::views::reverse)
          if (waits(s)) stack.push_back(s);
    }
  }

  void emit_all() {
    struct Frame {
      Region* region;
      size_t next;
      UOp closes;
    };
    std::vector<Frame> stack{{&root_, 0, {}}};
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.region->items.size()) {
        close_gate();
        if (top.closes) list_.push_back(top.closes);
        stack.pop_back();
        continue;
      }
      const UOp u = top.region->items[top.next++];
      if (u.op() == Op::END) {
        close_gate();
        list_.push_back(u.src(1));
        stack.push_back({regions_.find(u.src(1))->get(), 0, u});
      } else {
        emit(u);
      }
    }
  }

  void emit(const UOp& u) {
    if (u.op() != Op::STORE) {
      close_gate();
      list_.push_back(u);
      return;
    }
    const UOp& index = index_of_address(u.src(0));
    const UOp gate = has_gate(index) ? UOp::make(Op::IF, dtypes::void_, {gate_of(index)}) : UOp();
    if (open_gate_ && !(gate && same(gate, open_gate_))) close_gate();
    if (gate && !open_gate_) {
      list_.push_back(gate);
      open_gate_ = gate;
    }
    list_.push_back(u);
  }
  void close_gate() {
    if (!open_gate_) return;
    list_.push_back(UOp::make(Op::ENDIF, dtypes::void_, {open_gate_}));
    open_gate_ = UOp();
  }

  static constexpr int kOthers = 1 << 16;  // a user that is no GROUP

  const UOp sink_;
  const NodeList order_;
  Region root_;
  NodeMap<std::unique_ptr<Region>> regions_;
  NodeMap<int> users_;
  UOps list_;
  UOp open_gate_;
};

}  // namespace

LinearProgram linearize(const UOp& program) { return Linearizer(program).run(); }

}  // namespace quern
