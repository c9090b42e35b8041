#include "quern/codegen/analysis/given_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "quern/base/error.h"
#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {
namespace {

bool is_known_apart(const UOp& program) { return program.hints().steps_do_not_meet; }

constexpr int64_t kMostTried = 1024;

bool are_same(const UOp& a, const UOp& b) { return same(a, b); }

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

// Places belong to the steps of a range: place p to owner number p / scale, modulo the steps.
struct Owner {
  UOp number;  // of the place at an index, in that range alone; it differs from step to step
  int64_t scale = 0;
};

// None if that is not clear. Of r0 * 8 + r1[8] the number is r0 and the scale 8, of r1 * 4 + r0[4] r0 and 1.
UOp owner_at(const UOp& index, const UOp& range, int64_t scale) {
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

std::optional<Owner> owner_of(const UOp& access, const UOp& range) {
  const UOp& index = index_of_address(access.src(0));
  if (index.src().size() != 2) return {};
  const UOp& place = position_of(index);
  const std::optional<wide> stride = stride_of(place, range);
  if (!stride || *stride <= 0) return {};
  const auto scale = static_cast<int64_t>(*stride);
  UOp number = owner_at(place, range, scale);
  if (!number) return {};
  const DType value = access.op() == Op::LOAD ? access.dtype() : access.src(1).dtype();
  const int64_t more = value.bytes() / storage_of(index).dtype().base().bytes() - 1;  // of a vector
  if (more > 0 && !same(number, owner_at(place + more, range, scale))) return {};
  return Owner{std::move(number), scale};
}

// Does each of them use places that belong to its own step, all in one way?
bool are_apart(const UOps& accesses, const UOp& range) {
  std::optional<Owner> all;
  for (const UOp& a : accesses) {
    const std::optional<Owner> its = owner_of(a, range);
    if (!its || (all && (!same(all->number, its->number) || all->scale != its->scale))) return false;
    all = its;
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
      if (u.op() == Op::END) note_closed(u);
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
      if (const std::string why = why_not_placed(u); !why.empty()) return why;
      std::ranges::copy_if(u.loads, std::back_inserter(inside),
                           [&](const UOp& l) { return is_open(l, range); });
      if (!are_apart(inside, range))
        return fmt::format("they share {}, and may store to the same place of it", name_of_memory(u.memory));
    }
    return "";
  }

  std::string why_steps_depend(const UOp& range) const {
    const AxisKind kind = range.arg().range().kind;
    for (const Uses& u : uses_) {
      const UOps stores = stores_in(u, range);
      const AddrSpace space = u.memory.dtype().space();
      const bool is_own = space == AddrSpace::REG || (space == AddrSpace::LOCAL && !is_in_a_workgroup(kind));
      std::string why;
      if (!stores.empty()) why = why_not_placed(u);
      if (!why.empty()) return why;
      if (is_own)
        why = stores.empty() ? "" : why_not_own(u, stores, range);
      else if (!stores.empty() || (space == AddrSpace::LOCAL && !u.stores.empty()))
        why = why_not_shared(u, stores, range);
      if (!why.empty()) return fmt::format("{} {}", name_of_memory(u.memory), why);
    }
    return "";
  }

 private:
  // The loops that an END closes around each STORE that it is about.
  void note_closed(const UOp& end) {
    walk(
        end.src(0), [](const UOp& u) { return u.op() == Op::GROUP || u.op() == Op::END; },
        [&](const UOp& u) {
          if (u.op() != Op::STORE) return;
          UOps& closed = closed_[u];
          closed.insert(closed.end(), end.src().begin() + 1, end.src().end());
        });
  }
  bool is_closed_by(const UOp& store, const UOp& range) const {
    const UOps* closed = closed_.find(store);
    return closed != nullptr && std::ranges::find(*closed, range) != closed->end();
  }

  // Those that each step does. One that does the same in all steps matters if its memory is read.
  UOps stores_in(const Uses& uses, const UOp& range) const {
    UOps found;
    std::ranges::copy_if(uses.stores, std::back_inserter(found), [&](const UOp& s) {
      return is_open(s, range) || (!uses.loads.empty() && is_closed_by(s, range));
    });
    return found;
  }

  // Near memory is stored in the same loops each time: what is in fewer of them has its place by the loops
  // that it is in, which ranges that are no loops do not give it.
  std::string why_not_placed(const Uses& uses) const {
    if (uses.memory.op() == Op::PARAM) return "";
    std::optional<UOps> all;
    // An END that closes a loop for one store closes it for those, too, that the store waits for in the loop.
    const auto in_all = [&](const UOp& r) {
      return std::ranges::all_of(uses.stores, [&](const UOp& s) { return is_open(s, r); });
    };
    for (const UOp& s : uses.stores) {
      UOps around;
      for (const UOp& r : s.ranges())
        if (!is_closed_by(s, r) || in_all(r)) around.push_back(r);
      if (all && !std::ranges::equal(*all, around, are_same))
        return fmt::format("{} is stored in some of the loops around it, and elsewhere in others",
                           name_of_memory(uses.memory));
      all = std::move(around);
    }
    return "";
  }

  // Memory that each thread has for itself: nothing goes from one step to another, or behind the range.
  std::string why_not_own(const Uses& uses, const UOps& stores, const UOp& range) const {
    UOps all = stores;
    all.insert(all.end(), uses.loads.begin(), uses.loads.end());
    const bool is_cut = are_apart(all, range);
    if (!std::ranges::all_of(uses.loads, [&](const UOp& load) { return is_open(load, range); }))
      return "is stored by its steps and read behind it: each thread would have its own part";
    for (const UOp& load : uses.loads) {
      const bool starts = waits_for(load, true, [&](const UOp& e) {
        return e.op() == Op::STORE && is_open(e, range) && same(storage_of(e.src(0)), uses.memory) &&
               (is_same_place(e, load) || fills(e, load));
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

  // Do the loops around a STORE, which have ended, go over all places that are read? At a BARRIER all threads
  // have come to their end.
  bool fills(const UOp& store, const UOp& load) const {
    const UOp &to = index_of_address(store.src(0)), &from = index_of_address(load.src(0));
    if (to.src().size() != 2 || from.src().size() != 2) return false;
    const UOp &written = position_of(to), &read = position_of(from);
    return written.vmin() <= read.vmin() && read.vmax() <= written.vmax() &&
           std::ranges::all_of(written.ranges(), [&](const UOp& r) {
             return is_closed_by(store, r) ||
                    (is_in_a_workgroup(r.arg().range().kind) && is_behind_barrier(load));
           });
  }
  static bool is_same_place(const UOp& a, const UOp& b) {
    const UOp &x = index_of_address(a.src(0)), &y = index_of_address(b.src(0));
    return x.src().size() == y.src().size() &&
           std::ranges::equal(x.src().subspan(1), y.src().subspan(1), are_same);
  }

  UOps given_;
  std::vector<Uses> uses_;
  NodeMap<UOps> closed_;  // of a STORE: the ranges that ENDs close around it
};

bool is_at_once_kind(AxisKind kind) { return kind == AxisKind::UPCAST || kind == AxisKind::UNROLL; }

}  // namespace

bool may_store_twice(const UOp& program) {
  constexpr OpSet kDivisions = {Op::FLOORDIV, Op::FLOORMOD, Op::TRUNCDIV, Op::TRUNCMOD,
                                Op::AND,      Op::XOR,      Op::SHR};
  bool found = false;
  walk(program, [&](const UOp& u) {
    if (u.op() != Op::END) return;
    walk(
        u.src(0), [](const UOp& e) { return e.op() == Op::GROUP || e.op() == Op::END; },
        [&](const UOp& e) {
          if (found || e.op() != Op::STORE || storage_of(e.src(0)).op() != Op::PARAM) return;
          const UOp& index = index_of_address(e.src(0));
          if (index.src().size() != 2 || !position_of(index).ops_below().intersects(kDivisions)) return;
          for (const UOp& r : u.src().subspan(1))
            found = found || (r.op() == Op::RANGE && is_open(index, r) && !owner_of(e, r));
        });
  });
  return found;
}

std::string why_steps_depend(const UOp& program, const UOp& range) {
  if (is_known_apart(program)) return "";
  return Kinds(program).why_steps_depend(range);
}

namespace {

// A LOAD stands in the loops of the ranges that it depends on. Where a STORE goes on from what it reads,
// loops around both that it does not depend on are said with AFTER(memory, range): it is not clear otherwise
// which step's it reads. `nest`: the ranges that are closed around the STORE, the outermost first.
void check_what_it_goes_on_from(const UOp& store, const UOps& nest) {
  const UOp& memory = storage_of(store.src(0));
  const auto refuse = [&](const UOp& range) {
    throw Error(
        fmt::format("kernel: a STORE into {} reads what it wrote, in steps of range {} ({} of kind {}) that "
                    "the LOAD does not "
                    "depend on: memory that steps go on from is AFTER(memory, range)",
                    name_of_memory(memory), range.arg().range().id, range.src(0).simplify().text(),
                    name(range.arg().range().kind)));
  };
  walk(store.src(1), [&](const UOp& load) {
    if (load.op() != Op::LOAD || !same(storage_of(load.src(0)), memory)) return;
    UOp missing;
    for (const UOp& r : nest) {
      if (missing && is_open(load, r)) refuse(missing);
      if (!is_open(store, r)) refuse(r);
      if (!missing && !is_open(load, r)) missing = r;
    }
  });
}

}  // namespace

void check_given_kinds(const UOp& program) {
  if (is_known_apart(program)) return;
  bool any = false;
  NodeMap<UOps> nests;
  UOps stores;
  walk(program, [&](const UOp& u) {
    any = any || has_a_kind(u);
    if (u.op() != Op::END) return;
    UOps ranges;
    for (const UOp& r : u.src().subspan(1))
      if (r.op() == Op::RANGE) ranges.push_back(r);
    walk(
        u.src(0), [](const UOp& e) { return e.op() == Op::GROUP || e.op() == Op::END; },
        [&](const UOp& e) {
          if (e.op() != Op::STORE) return;
          UOps& nest = nests[e];
          if (nest.empty()) stores.push_back(e);
          nest.insert(nest.begin(), ranges.begin(), ranges.end());
        });
  });
  for (const UOp& s : stores) check_what_it_goes_on_from(s, *nests.find(s));
  if (!any) return;
  const Kinds kinds(program);
  for (const UOp& range : kinds.given()) {
    const AxisKind kind = range.arg().range().kind;
    const bool at_once = is_at_once_kind(kind);
    const std::string why = at_once ? kinds.why_not_at_once(range) : kinds.why_steps_depend(range);
    if (why.empty()) continue;
    throw Error(fmt::format("kernel: the steps of range {} ({} of kind {}) cannot be done {}: {}",
                            range.arg().range().id, range.src(0).simplify().text(), name(kind),
                            at_once ? "at once" : "by threads", why));
  }
}

}  // namespace quern
