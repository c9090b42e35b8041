#include "quern/schedule/devices/multi.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "quern/base/error.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/schedule/devices/allreduce.h"
#include "quern/schedule/facts/device_parts.h"
#include "quern/schedule/facts/facts.h"
#include "quern/schedule/facts/memory_view.h"

namespace quern {

namespace {

// A node as each device has it.
struct Placed {
  UOp value;
  UOp devices;  // DEVICE; none: constants only
  Sharding sharding;

  const Texts& names() const {
    static const Texts kNone;
    return devices ? devices.arg().texts() : kNone;
  }
  int64_t parts() const { return std::ssize(names()); }
  std::string text() const { return fmt::format("{}", fmt::join(names(), "+")); }
};

class Expander {
 public:
  explicit Expander(const UOp& sink) : sink_(sink), next_identity_(next_identity(sink)) {}

  UOp run() {
    place_all(sink_);
    return of(sink_).value;
  }

 private:
  const Placed& of(const UOp& u) const { return all_[*position_.find(u)]; }

  void place_all(const UOp& root) {
    held_.push_back(root);
    const NodeList order = root.toposort(
        [&](const UOp& u) { return !position_.contains(u) && (u.op() != Op::SINK || same(u, sink_)); });
    for (const UOp& u : order) {
      if (position_.contains(u)) continue;
      Placed placed = place(u);
      position_.emplace(u, all_.size());
      all_.push_back(std::move(placed));
    }
  }

  Placed place(const UOp& u) {
    switch (u.op()) {
      case Op::DEVICE: return {u, u, {}};
      case Op::BUFFER: return {u, u.src(1), {}};
      case Op::MULTI: return place_multi(u);
      case Op::COPY: return place_copy(u);
      case Op::STORE: return place_store(u);
      case Op::REDUCE: return place_reduce(u);
      case Op::CALL: return place_call(u);
      case Op::MSTACK: return place_stack(u);
      case Op::ALLREDUCE: {
        const Placed& x = of(u.src(0));
        return {u.with_src(UOps{x.value, u.src(1)}), u.src(1), {}};
      }
      case Op::MSELECT: {
        const Placed& x = of(u.src(0));
        const int64_t i = u.arg().integer();
        if (i >= x.parts()) throw DeviceError(fmt::format("MSELECT: part {} of a tensor on {}", i, x.text()));
        if (x.parts() == 1) return {x.value, x.devices, {}};
        return {
            select_device(for_other_devices(x.value), i), device_node(x.names()[static_cast<size_t>(i)]), {}};
      }
      case Op::SINK:
        if (!same(u, sink_)) return {u, {}, {}};  // a kernel of the user's
        break;
      default: break;
    }
    if (is_elementwise(u.op())) return place_elementwise(u);
    if (is_movement(u.op())) return place_movement(u, of(u.src(0)));
    return rebuilt(u);
  }

  // With what became of its sources.
  Placed rebuilt(const UOp& u) const {
    Placed result{u, {}, {}};
    UOps sources;
    bool changed = false;
    std::vector<Sharding> shardings;
    for (const UOp& s : u.src()) {
      const Placed& p = of(s);
      sources.push_back(p.value);
      shardings.push_back(p.sharding);
      changed |= !same(p.value, s);
      if (!result.devices) result.devices = p.devices;
    }
    if (changed) result.value = u.with_src(sources);
    result.sharding = sharding_after(u, shardings);
    return result;
  }

  // ---- between shardings

  // All parts together, on the devices that are named.
  UOp gathered(const Placed& p, const UOp& devices) {
    const UOp key = UOp::make(Op::COPY, p.value.dtype(), {sharded(p.value, p.sharding), devices});
    if (const auto known = gathered_.find(key); known != gathered_.end()) return known->second;
    const UOp part = for_other_devices(p.value);
    const auto at = static_cast<size_t>(p.sharding.axis);
    UOps shape = part.shape();
    const UOp size = shape[at];
    shape[at] = (size * p.sharding.parts).simplify();
    UOps copies, offsets(shape.size(), UOp::index(0));
    for (int64_t i = 0; i < p.sharding.parts; i++) copies.push_back(copy_to(select_device(part, i), devices));
    auto offset_of = [&](size_t i) {
      offsets[at] = (size * static_cast<int64_t>(i)).simplify();
      return offsets;
    };
    UOp result;
    if (std::ranges::all_of(shape, [](const UOp& s) { return s.is_int_const(); })) {
      const UOp memory = own_memory(part.dtype(), elements_at_most(shape), devices, next_identity_++);
      UOps stores;
      for (size_t i = 0; i < copies.size(); i++)
        stores.push_back(store(shrink(reshape(memory, shape), offset_of(i), part.shape()), copies[i]));
      result = reshape(after(memory, stores), shape);
    } else {
      for (size_t i = 0; i < copies.size(); i++) {
        const UOp here = pad(full(part.shape(), UOp::boolean(true)), offset_of(i), shape);
        const UOp x = pad(copies[i], offset_of(i), shape);
        result = result ? where(here, x, result) : x;
      }
    }
    return gathered_.emplace(key, result).first->second;
  }

  UOp in_sharding(const Placed& p, Sharding wanted) {
    if (p.sharding == wanted) return p.value;
    return own_part(p.sharding.cut() ? gathered(p, p.devices) : p.value, wanted);
  }

  // ---- values

  Placed place_multi(const UOp& u) {
    const UOp& part = u.src(0);
    const Placed p = of(part);
    const Sharding wanted{u.arg().integer(), p.parts()};
    if (p.parts() < 2) return {p.value, p.devices, {}};
    if (is_cut_by_device(part) && of(part.src(0)).sharding.cut())  // what was cut is cut on another axis
      return {in_sharding(Placed(of(part.src(0))), wanted), p.devices, wanted};
    if (p.sharding.cut())
      throw DeviceError(fmt::format("MULTI on axis {}: its part, on {}, is itself cut on axis {}",
                                    wanted.axis, p.text(), p.sharding.axis));
    return {p.value, p.devices, wanted};
  }

  Placed place_elementwise(const UOp& u) {
    Placed result = rebuilt(u);
    bool alike = true;
    for (const UOp& s : u.src()) {
      const Placed& p = of(s);
      if (p.devices && !same(p.devices, result.devices) && (p.parts() > 1 || result.parts() > 1))
        throw DeviceError(
            fmt::format("{}: one operand of shape {} is on {}, another on {}; move one with to() "
                        "or shard()",
                        name(u.op()), shape_text(u.shape()), result.text(), p.text()));
      alike &= p.sharding == result.sharding;
    }
    if (alike) return result;
    UOps sources;
    for (const UOp& s : u.src()) sources.push_back(in_sharding(Placed(of(s)), result.sharding));
    result.value = u.with_src(sources);
    return result;
  }

  Placed place_reduce(const UOp& u) {
    Placed result = rebuilt(u);
    const Placed x = of(Reduction(u).values[0]);
    if (!x.sharding.cut() || result.sharding.cut()) return result;
    const ReduceArg& arg = u.arg().reduce();
    if (arg.op == Op::NOOP || arg.states != 1)
      throw DeviceError(
          fmt::format("a reduce of several values, on {}, goes over a sharded tensor; gather it "
                      "first with to()",
                      x.text()));
    const UOp own = reduce(x.value, arg.op, arg.axes);
    const ReduceArg over_devices{.op = arg.op, .axes = {}, .states = 1};
    return {UOp::make(Op::ALLREDUCE, u.dtype(), {own, x.devices}, over_devices), x.devices, {}};
  }

  Placed place_call(const UOp& u) {
    for (size_t i = 1; i < u.src().size(); i++)
      if (const Placed& p = of(u.src(i)); p.sharding.cut())
        throw DeviceError(
            fmt::format("custom_kernel: argument {} is sharded on axis {} over {}; gather it first with to()",
                        i - 1, p.sharding.axis, p.text()));
    return rebuilt(u);
  }

  Placed place_stack(const UOp& u) const {
    Placed result = rebuilt(u);
    Texts names;
    for (const UOp& s : u.src()) names.insert(names.end(), of(s).names().begin(), of(s).names().end());
    result.devices = UOp::make(Op::DEVICE, dtypes::void_, {}, names);
    return result;
  }

  Placed place_copy(const UOp& u) {
    const Placed& x = of(u.src(0));
    const UOp& target = u.src(1);
    if (is_everywhere(x.value) && !x.sharding.cut()) return {x.value, target, {}};
    if (x.parts() < 2) return {u.with_src(UOps{x.value, target}), target, {}};
    if (x.sharding.cut()) return {gathered(x, target), target, {}};
    if (same(target, x.devices)) return {x.value, target, {}};
    const Texts& names = x.names();
    const auto found = std::ranges::find(names, target.arg().texts()[0]);
    const auto i = found == names.end() || target.arg().texts().size() > 1 ? 0 : found - names.begin();
    return {copy_to(select_device(for_other_devices(x.value), i), target), target, {}};
  }

  // ---- movement

  Placed place_movement(const UOp& u, const Placed& x) {
    if (!x.sharding.cut()) {
      if (is_cut_by_device(u) && u.src(0).op() == Op::COPY && x.parts() > 1)
        if (UOp parts = sent_out(u, x)) return {parts, x.devices, {}};
      return rebuilt(u);
    }
    const Sharding now = sharding_after(u, std::span(&x.sharding, 1));
    if (now.cut() && u.op() == Op::FLIP && is_everywhere(x.value))
      return {own_part(flip(gathered(x, x.devices), u.arg().ints()), now), x.devices, now};
    if (now.cut()) return {moved(u, x, now), x.devices, now};
    if (u.op() == Op::RESHAPE)
      throw ShapeError(
          fmt::format("reshape: {}, sharded on axis {} over {}, to {}: no axis of that can be "
                      "divided among the devices in its place; gather it first with to()",
                      shape_text(u.src(0).shape()), x.sharding.axis, x.text(), shape_text(u.shape())));
    if (UOp own = part_of_one_device(u, x)) return {own, x.devices, {}};
    UOps sources(u.src().begin(), u.src().end());
    sources[0] = gathered(x, x.devices);
    return {u.with_src(sources), x.devices, {}};
  }

  // The same on each part.
  UOp moved(const UOp& u, const Placed& x, Sharding now) {
    UOps sources{x.value};
    switch (u.op()) {
      case Op::PERMUTE: return permute(x.value, u.arg().ints());
      case Op::FLIP: {
        UOp own = flip(x.value, u.arg().ints());
        const Ints& axes = u.arg().ints();
        if (std::ranges::find(axes, now.axis) == axes.end()) return own;
        UOps parts;  // the first device has what was last
        const UOp kept = for_other_devices(own);
        for (int64_t i = 0; i < x.parts(); i++)
          parts.push_back(copy_to(select_device(kept, x.parts() - 1 - i),
                                  device_node(x.names()[static_cast<size_t>(i)])));
        return UOp::make(Op::MSTACK, u.dtype(), parts);
      }
      case Op::RESHAPE: return reshape(x.value, part_sizes(u.shape(), now));
      case Op::EXPAND: return expand(x.value, part_sizes(u.shape(), now));
      default: {  // PAD, SHRINK of other axes
        const Sources offsets = u.src().subspan(1, u.shape().size());
        const UOps sizes = part_sizes(u.shape(), now);
        return u.op() == Op::PAD ? pad(x.value, offsets, sizes) : shrink(x.value, offsets, sizes);
      }
    }
  }

  // SHRINK to what one device has: the others get a copy of it.
  UOp part_of_one_device(const UOp& u, const Placed& x) {
    if (u.op() != Op::SHRINK) return {};
    const auto at = static_cast<size_t>(x.sharding.axis);
    UOps offsets(u.src().begin() + 1, u.src().begin() + 1 + std::ssize(u.shape()));
    const UOp &size = u.shape()[at], &own = x.value.shape()[at];
    if (!offsets[at].is_int_const() || !size.is_int_const() || !own.is_int_const() || own.equals(0))
      return {};
    const wide first = offsets[at].int_value(), length = own.int_value(), device = first / length;
    if (size.equals(0) || (first + size.int_value() - 1) / length != device) return {};
    offsets[at] = UOp::index(static_cast<int64_t>(first - device * length));
    const UOp kept = for_other_devices(shrink(x.value, offsets, u.shape()));
    return copy_to(select_device(kept, static_cast<int64_t>(device)), x.devices);
  }

  // What each device wants of a value on one device is sent to it: not all of it to all.
  UOp sent_out(const UOp& u, const Placed& everywhere) {
    const Placed& x = of(u.src(0).src(0));
    if (x.parts() != 1 || base_of(x.value).is_const()) return {};
    const UOp whole = has_memory(base_of(x.value)) ? x.value : for_other_devices(x.value);
    UOps parts;
    for (int64_t i = 0; i < everywhere.parts(); i++) {
      UOps sources{whole};
      for (const UOp& s : u.src().subspan(1)) sources.push_back(on_device(s, i));
      parts.push_back(copy_to(u.with_src(sources), device_node(everywhere.names()[static_cast<size_t>(i)])));
    }
    return UOp::make(Op::MSTACK, u.dtype(), parts);
  }

  // ---- stores

  Placed place_store(const UOp& u) {
    const Placed target = of(u.src(0)), value = of(u.src(1));
    if (value.devices && !same(value.devices, target.devices) && (value.parts() > 1 || target.parts() > 1))
      throw DeviceError(
          fmt::format("assign: a value of shape {} on {} is stored on {}; move it with to() or "
                      "shard()",
                      shape_text(u.src(1).shape()), value.text(), target.text()));
    if (target.parts() < 2) return rebuilt(u);
    if (!has_memory(base_of(target.value)) || base_of(target.value).op() == Op::COPY ||
        of(base_of(u.src(0))).sharding.cut() != target.sharding.cut()) {
      const UOp all = stored_over(u);
      place_all(all);
      return of(all);
    }
    const UOp x = in_sharding(value, target.sharding);
    // Each part is put in its place, unless it may be made from what another device overwrites.
    if (x.op() == Op::MSTACK && is_whole_memory(target.value) && !is_below(memory_of(target.value), x)) {
      UOps stores;
      for (int64_t i = 0; i < target.parts(); i++)
        stores.push_back(store(select_device(target.value, i), x.src(static_cast<size_t>(i))));
      return {UOp::make(Op::GROUP, dtypes::void_, stores), target.devices, {}};
    }
    return {store(target.value, x), target.devices, {}};
  }

  static const UOp& memory_of(const UOp& x) {
    const UOp* u = &x;
    while (is_movement(u->op()) || u->op() == Op::AFTER) u = &u->src(0);
    return *u;
  }
  static bool is_below(const UOp& memory, const UOp& x) {
    bool found = false;
    walk(x, [&](const UOp& u) { found |= same(u, memory); });
    return found;
  }

  const UOp sink_;
  int64_t next_identity_;
  NodeMap<size_t> position_;
  std::vector<Placed> all_;
  UOps held_;  // roots that were added: keys of the table
  std::unordered_map<UOp, UOp> gathered_;
};

}  // namespace

UOp expand_devices(const UOp& sink) {
  constexpr OpSet kConcerned = {Op::MULTI, Op::MSELECT, Op::MSTACK, Op::ALLREDUCE, Op::COPY};
  if (!sink.ops_below().intersects(kConcerned)) return sink;
  return lower_allreduce(Expander(sink).run());
}

}  // namespace quern
