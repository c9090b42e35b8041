#include "quern/codegen/given_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "quern/codegen/strides.h"
#include "quern/ir/error.h"
#include "quern/ir/linear.h"
#include "quern/ir/node_map.h"

namespace quern {
namespace {

constexpr int64_t kMostTried = 1024;

bool has_a_kind(const UOp& u) {
  return u.op() == Op::RANGE && u.arg().range().kind != AxisKind::LOOP &&
         u.arg().range().kind != AxisKind::REDUCE;
}
bool is_in_a_workgroup(AxisKind kind) {
  return kind == AxisKind::LOCAL || kind == AxisKind::WARP || kind == AxisKind::GROUP_REDUCE;
}

std::string name_of_memory(const UOp& memory) {
  return memory.op() == Op::PARAM ? fmt::format("argument {}", memory.arg().integer())
                                  : fmt::format("{} {}", name(memory.op()), memory.arg().integer());
}

// How one memory is used by the kernel.
struct Uses {
  UOp memory;
  UOps loads, stores;
};

// Which of the steps of a range owns the place at an index, as an expression in that range alone, which
// differs from step to step; none if that is not clear. Of r0 * 8 + r1[8] and r1 * 4 + r0[4] it is r0.
UOp owner_of(const UOp& index, const UOp& range) {
  const std::optional<wide> stride = stride_of(index, range);
  if (!stride || *stride <= 0) return {};
  const auto scale = static_cast<int64_t>(*stride);
  const UOp& steps = range.src(0);
  UOp owner = index / scale;
  if (steps.is_int_const()) owner = owner % static_cast<int64_t>(steps.int_value());
  owner = owner.simplify();
  for (const UOp& r : owner.ranges())
    if (!same(r, range)) return {};
  if (same(owner, range)) return owner;
  if (!steps.is_int_const() || steps.int_value() > kMostTried || owner.ops_below().contains(Op::LOAD))
    return {};
  std::set<wide> seen;
  for (int64_t i = 0; i < static_cast<int64_t>(steps.int_value()); i++) {
    const UOp at = owner.substitute({{range, UOp::constant(range.dtype(), wide{i})}}).simplify();
    if (!at.is_int_const() || !seen.insert(at.int_value()).second) return {};
  }
  return owner;
}

UOp owner_of_access(const UOp& access, const UOp& range) {
  const UOp& index = index_of_address(access.src(0));
  return index.src().size() == 2 ? owner_of(position_of(index), range) : UOp();
}

// Does each of them use places that belong to its own step, all in one way?
bool are_apart(const UOps& accesses, const UOp& range) {
  UOp owner;
  for (const UOp& a : accesses) {
    const UOp its = owner_of_access(a, range);
    if (!its || (owner && !same(owner, its))) return false;
    owner = its;
  }
  return true;
}

// What a LOAD waits for; of a STORE, also what that waited for if it is `entered`.
bool waits_for(const UOp& load, bool entered, const auto& is_wanted) {
  bool found = false;
  for (const UOp* u = &load.src(0); !u->src().empty(); u = &u->src(0))
    if (u->op() == Op::AFTER)
      for (const UOp& effect : u->src().subspan(1))
        walk(
            effect, [&](const UOp& e) { return entered || e.op() != Op::STORE; },
            [&](const UOp& e) { found = found || is_wanted(e); });
  return found;
}
bool is_behind_barrier(const UOp& load) {
  return waits_for(load, false, [](const UOp& e) { return e.op() == Op::BARRIER; });
}

class Kinds {
 public:
  explicit Kinds(const UOp& program) {
    walk(program, [&](const UOp& u) {
      if (has_a_kind(u)) given_.push_back(u);
      if (u.op() != Op::LOAD && u.op() != Op::STORE) return;
      const UOp& memory = storage_of(u.src(0));
      auto found = std::ranges::find_if(uses_, [&](const Uses& one) { return same(one.memory, memory); });
      if (found == uses_.end()) found = uses_.insert(uses_.end(), Uses{memory, {}, {}});
      (u.op() == Op::LOAD ? found->loads : found->stores).push_back(u);
    });
    std::ranges::sort(given_, before);
  }

  const UOps& given() const { return given_; }

  // Steps at once in one thread: they share all memory, and each does what it does at the same time.
  std::string why_not_at_once(const UOp& range) const {
    if (!range.src(0).is_int_const()) return "";  // it stays a loop
    for (const Uses& u : uses_) {
      UOps inside = stores_in(u, range);
      if (inside.empty()) continue;
      std::ranges::copy_if(u.loads, std::back_inserter(inside),
                           [&](const UOp& l) { return is_open(l, range); });
      if (!are_apart(inside, range))
        return fmt::format("they share {}, and may store to the same place of it", name_of_memory(u.memory));
    }
    return "";
  }

  std::string why_not_apart(const UOp& range) const {
    const AxisKind kind = range.arg().range().kind;
    for (const Uses& u : uses_) {
      const UOps stores = stores_in(u, range);
      const AddrSpace space = u.memory.dtype().space();
      const bool is_own = space == AddrSpace::REG || (space == AddrSpace::LOCAL && !is_in_a_workgroup(kind));
      std::string why;
      if (is_own)
        why = stores.empty() ? "" : why_not_own(u, stores, range);
      else if (!stores.empty() || (space == AddrSpace::LOCAL && !u.stores.empty()))
        why = why_not_shared(u, stores, range);
      if (!why.empty()) return fmt::format("{} {}", name_of_memory(u.memory), why);
    }
    return "";
  }

 private:
  static UOps stores_in(const Uses& uses, const UOp& range) {
    UOps found;
    std::ranges::copy_if(uses.stores, std::back_inserter(found),
                         [&](const UOp& s) { return is_open(s, range); });
    return found;
  }

  // Memory that each thread has for itself: nothing goes from one step to another, or behind the range.
  static std::string why_not_own(const Uses& uses, const UOps& stores, const UOp& range) {
    UOps all = stores;
    all.insert(all.end(), uses.loads.begin(), uses.loads.end());
    const bool is_cut = are_apart(all, range);
    for (const UOp& load : uses.loads) {
      if (!is_open(load, range))
        return "is stored by its steps and read behind it: each thread would have its own part";
      const bool starts = waits_for(load, true, [&](const UOp& e) {
        return e.op() == Op::STORE && is_open(e, range) && same(storage_of(e.src(0)), uses.memory);
      });
      if (!starts && !is_cut) return "goes on from what another step left in it, which another thread has";
    }
    return "";
  }

  // Memory that all threads see. Nobody knows when they write, but for those of a workgroup behind a BARRIER.
  static std::string why_not_shared(const Uses& uses, const UOps& stores, const UOp& range) {
    UOps together = stores;
    for (const UOp& load : uses.loads) {
      if (is_in_a_workgroup(range.arg().range().kind) && is_behind_barrier(load)) continue;
      if (!is_open(load, range))
        return "is written by its steps, and read by others without a BARRIER between";
      together.push_back(load);
    }
    return are_apart(together, range) ? "" : "may be written at one place by several of its steps";
  }

  UOps given_;
  std::vector<Uses> uses_;
};

bool is_at_once_kind(AxisKind kind) { return kind == AxisKind::UPCAST || kind == AxisKind::UNROLL; }

}  // namespace

std::string why_not_apart(const UOp& program, const UOp& range) {
  return Kinds(program).why_not_apart(range);
}

void check_given_kinds(const UOp& program) {
  bool any = false;
  walk(program, [&](const UOp& u) { any = any || has_a_kind(u); });
  if (!any) return;
  const Kinds kinds(program);
  for (const UOp& range : kinds.given()) {
    const AxisKind kind = range.arg().range().kind;
    const bool at_once = is_at_once_kind(kind);
    const std::string why = at_once ? kinds.why_not_at_once(range) : kinds.why_not_apart(range);
    if (why.empty()) continue;
    throw Error(fmt::format("kernel: the steps of range {} ({} of kind {}) cannot be done {}: {}",
                            range.arg().range().id, range.src(0).simplify().text(), name(kind),
                            at_once ? "at once" : "by threads", why));
  }
}

}  // namespace quern
