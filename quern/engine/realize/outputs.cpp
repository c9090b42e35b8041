#include "quern/engine/realize/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/runtime/device.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/disk.h"
#include "quern/tensor/core/live.h"
#include "quern/tensor/core/tensor.h"

namespace quern {
namespace {

UOp without_binds(const UOp& u, bool values) {
  if (!u.ops_below().contains(Op::BIND)) return u;
  std::unordered_map<UOp, UOp> map;
  walk(u, [&](const UOp& n) {
    if (n.op() == Op::BIND && n.src().size() == 2) map.emplace(n, n.src(values ? 1 : 0));
  });
  if (!values) return u.substitute(map);
  std::unordered_map<UOp, UOp> sizes = map;  // as numbers, not as sums of numbers
  walk(u, [&](const UOp& n) {
    if (!n.dtype().is_index() || n.op() == Op::BIND || !n.ops_below().contains(Op::BIND)) return;
    if (const UOp size = n.substitute(map).simplify(); size.is_int_const()) sizes.emplace(n, size);
  });
  return u.substitute(sizes);
}

// Memory as it is when all that an AFTER waits for has happened: the same views without AFTERs.
UOp settled(const UOp& state) {
  std::vector<const UOp*> views;
  const UOp* u = &state;
  for (; u->op() != Op::BUFFER; u = &u->src(0))
    if (u->op() != Op::AFTER) views.push_back(u);
  UOp result = *u;
  for (size_t i = views.size(); i-- > 0;) {
    UOps sources(views[i]->src().begin(), views[i]->src().end());
    sources[0] = result;
    result = views[i]->with_src(sources);
  }
  return result;
}

// Memory for a value of this shape, seen as that shape. With symbolic sizes it is as large as they can be.
UOp seen_as(const UOp& memory, const UOps& shape) {
  const bool symbolic = std::ranges::any_of(shape, [](const UOp& s) { return !s.is_const(); });
  if (!symbolic) return reshape(memory, shape);
  UOps most;
  for (const UOp& s : shape) most.push_back(UOp::index(greatest(s)));
  return shrink(reshape(memory, most), UOps(shape.size(), UOp::index(0)), shape);
}

// The same, cut among the devices that the memory is on.
UOp seen_as(const UOp& memory, const UOps& shape, Sharding sharding) {
  return sharded(seen_as(memory, part_sizes(shape, sharding)), sharding);
}

UOp memory_for(const UOp& value, Sharding sharding) {
  Texts devices = value.device();
  if (devices.empty()) devices = {Device::canonical(default_device())};
  wide elements = 1;
  for (const UOp& s : part_sizes(value.shape(), sharding)) elements *= greatest(s);
  if (elements * value.dtype().bytes() > wide{1} << 60)
    throw Error(fmt::format("realize: a tensor of shape {} and dtype {} does not fit into memory",
                            shape_text(value.shape()), value.dtype().name()));
  return new_buffer(value.dtype(), static_cast<int64_t>(elements),
                    UOp::make(Op::DEVICE, dtypes::void_, {}, devices));
}

class Gatherer {
 public:
  Gatherer(const UOps& live, Roots as) : live_(live), as_(as) {}

  Outputs run(const UOps& roots) {
    for (const UOp& root : roots) as_ == Roots::copied ? (void)wanted_.insert(root) : (void)add(root);
    do look();
    while (add_others());
    return build();
  }

 private:
  bool add(const UOp& u) {
    const UOp view = without_detach(u), &base = memory_base(view);
    if (base.op() == Op::BUFFER || base.op() == Op::SLICE) return false;
    return is_state(base) ? wanted_.insert(base) : add_value(u);
  }

  bool add_value(const UOp& u) { return wanted_.insert(as_ == Roots::read ? u : seen_together(u)); }

  // Which memory is written by what is wanted now, and what is the last that happens to it.
  void look() {
    states_.clear(), superseded_.clear(), written_.clear(), contiguous_.clear();
    UOps calls;
    walk(UOp::sink(wanted_.order), enter, [&](const UOp& u) {
      if (u.op() == Op::CONTIGUOUS) contiguous_.insert(u);
      if (u.op() == Op::CALL) calls.push_back(u);
      if (is_state(u)) {
        states_.insert(u);
        written_.insert(buffer_under(u));
      }
      const bool writes = is_state(u) || u.op() == Op::STORE;
      if (writes && memory_base(u.src(0)).op() == Op::AFTER) superseded_.insert(memory_base(u.src(0)));
    });
    // A kernel of the user's is run once: all that it writes is as it is afterwards, also what nobody asked
    // for.
    bool added = false;
    for (const UOp& call : calls)
      for (const UOp& argument : written_arguments(call))
        if (const UOp state = after(argument, UOps{call}); is_state(state)) added |= wanted_.insert(state);
    if (added) look();
  }

  bool add_others() {
    // What reads, in a state before the last, memory that is written: found in one walk for all.
    NodeSet reads_old;
    if (!written_.empty())
      walk(UOp::sink(live_), enter, [&](const UOp& u) {
        const bool old = (u.op() == Op::BUFFER && written_.contains(u)) ||
                         std::ranges::any_of(u.src(), [&](const UOp& s) { return reads_old.contains(s); });
        if (old && !is_last(u)) reads_old.insert(u);
      });
    bool added = false;
    for (const UOp& u : live_) {
      const UOp& base = memory_base(u);
      if (contiguous_.contains(base)) added |= wanted_.insert(base);
      if (reads_old.contains(u) && !wanted_.contains(u)) added |= is_state(base) ? add(u) : add_value(u);
    }
    return added;
  }

  static bool enter(const UOp& u) { return !is_kernel(u); }
  bool is_last(const UOp& u) const { return states_.contains(u) && !superseded_.contains(u); }

  Outputs build() {
    Outputs result;
    UOps outputs;
    NodeMap<UOp> done, places;  // nodes as values, and as memory that is written
    UOps sources;
    const UOp all = UOp::sink(wanted_.order);
    const Shardings shardings(all);
    walk(all, enter, [&](const UOp& u) {
      if (same(u, all)) return;
      if (is_kernel(u)) {
        done.emplace(u, u), places.emplace(u, u);
        return;
      }
      const bool writes = u.op() == Op::STORE || u.op() == Op::AFTER;
      auto rebuilt = [&](bool as_place) {
        sources.clear();
        bool changed = false;
        for (size_t i = 0; i < u.src().size(); i++) {
          const bool is_place = (as_place && i == 0) || u.op() == Op::CALL;  // it writes to its arguments
          sources.push_back(*(is_place ? places : done).find(u.src(i)));
          changed |= !same(sources.back(), u.src(i));
        }
        return changed ? u.with_src(sources) : u;
      };
      const UOp now = rebuilt(writes);
      const bool is_view = is_movement(u.op()) || u.op() == Op::SLICE || u.op() == Op::MULTI;
      places.emplace(u, is_view ? rebuilt(true) : now);
      if (is_last(u)) {
        outputs.push_back(now);
        result.replaced.emplace(u, settled(u));
      }
      if (!wanted_.contains(u) || is_state(u)) {
        done.emplace(u, now);
        return;
      }
      const UOp& value = now.op() == Op::CONTIGUOUS ? now.src(0) : now;
      const Sharding sharding = shardings[u];
      const UOp memory = memory_for(value, sharding), seen = seen_as(memory, value.shape(), sharding);
      UOp effect = store(seen, value);
      if (now.op() == Op::CONTIGUOUS) effect = effect.replace({.arg = now.arg()});
      const UOp state = after(sharding.cut() ? seen : memory, UOps{effect});
      outputs.push_back(state);
      result.replaced.emplace(u, seen);
      done.emplace(u, sharding.cut() ? state : seen_as(state, value.shape()));
    });
    std::unordered_set<UOp> seen;
    std::erase_if(outputs, [&](const UOp& o) { return !seen.insert(o).second; });
    result.sink = detail::without_other_widths(UOp::sink(outputs));
    return result;
  }

  const UOps& live_;
  Roots as_;
  // In the order in which they were added, so that equal programs give equal graphs.
  struct Wanted {
    UOps order;
    std::unordered_set<UOp> all;
    bool insert(const UOp& u) {
      const bool added = all.insert(u).second;
      if (added) order.push_back(u);
      return added;
    }
    bool contains(const UOp& u) const { return all.contains(u); }
  };
  Wanted wanted_;
  std::unordered_set<UOp> states_, superseded_, written_, contiguous_;
};

}  // namespace

UOp buffer_under(const UOp& x) {
  const UOp* u = &x;
  while (is_movement(u->op()) || u->op() == Op::AFTER || u->op() == Op::SLICE || u->op() == Op::MULTI)
    u = u->op() == Op::AFTER ? &memory_under(*u) : &u->src(0);
  return u->op() == Op::BUFFER ? *u : UOp();
}

bool is_kernel(const UOp& u) { return u.op() == Op::SINK && u.arg().kind() == ArgKind::Kernel; }
bool is_state(const UOp& u) { return u.op() == Op::AFTER && buffer_under(u); }

const UOp& seen_together(const UOp& u) {
  const UOp& whole = detail::whole_of(u);
  return !same(whole, u) && is_seen_together(u, whole) ? whole : u;
}

int64_t greatest(const UOp& size) {
  return static_cast<int64_t>(without_binds(size, false).simplify().vmax());
}
UOp with_values(const UOp& u) { return without_binds(u, true); }

Ints known_sizes(Sources shape) {
  Ints result;
  for (const UOp& s : shape) {
    const UOp size = s.simplify();
    if (!size.is_int_const())
      throw ShapeError(fmt::format("shape {}: a variable has no value", shape_text(shape)));
    result.push_back(static_cast<int64_t>(size.int_value()));
  }
  return result;
}

Outputs outputs_for(const UOps& roots, Roots as, const UOps& live) { return Gatherer(live, as).run(roots); }

}  // namespace quern
