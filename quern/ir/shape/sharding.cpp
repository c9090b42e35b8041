#include "quern/ir/shape/sharding.h"

#include <algorithm>
#include <unordered_map>

#include "quern/ir/shape/movement.h"

namespace quern {

UOp device_number(int64_t devices) { return UOp::variable(kDeviceNumber, 0, devices - 1); }

UOps part_sizes(Sources sizes, Sharding sharding) {
  UOps result(sizes.begin(), sizes.end());
  if (!sharding.cut()) return result;
  UOp& size = result[static_cast<size_t>(sharding.axis)];
  size = (size / sharding.parts).simplify();
  return result;
}

UOp own_part(const UOp& whole, Sharding sharding) {
  if (!sharding.cut()) return whole;
  const auto at = static_cast<size_t>(sharding.axis);
  const UOps sizes = part_sizes(whole.shape(), sharding);
  if (whole.op() == Op::EXPAND && whole.src(0).shape()[at].equals(1)) return expand(whole.src(0), sizes);
  UOps offsets(sizes.size(), UOp::index(0));
  offsets[at] = device_number(sharding.parts) * sizes[at];
  return shrink(whole, offsets, sizes);
}

UOp sharded(const UOp& part, Sharding sharding) {
  return sharding.cut() ? UOp::make(Op::MULTI, part.dtype(), {part}, sharding.axis) : part;
}

UOp on_device(const UOp& index, int64_t device) {
  if (!index.ops_below().contains(Op::DEFINE_VAR)) return index;
  std::unordered_map<UOp, UOp> map;
  for (const UOp& v : index.variables())
    if (v.arg().variable().name == kDeviceNumber) map.emplace(v, UOp::index(device));
  return map.empty() ? index : index.substitute(map).simplify();
}

bool is_cut_by_device(const UOp& u) {
  if (u.op() != Op::SHRINK) return false;
  for (const UOp& offset : u.src().subspan(1))
    for (const UOp& v : offset.variables())
      if (v.arg().variable().name == kDeviceNumber) return true;
  return false;
}

int64_t axis_in_reshape(Sources from, Sources to, Sharding sharding) {
  const UOp outside = elements_in(from.first(static_cast<size_t>(sharding.axis)));
  for (size_t i = 0; i < to.size(); i++) {
    if (to[i].equals(1) || !same(elements_in(to.first(i)), outside)) continue;
    return (to[i] % sharding.parts).simplify().equals(0) ? static_cast<int64_t>(i) : -1;
  }
  return -1;
}

namespace {

Sharding through_movement(const UOp& u, Sharding s) {
  const auto at = static_cast<size_t>(s.axis);
  const UOps& from = u.src(0).shape();
  switch (u.op()) {
    case Op::RESHAPE: {
      const int64_t axis = axis_in_reshape(from, u.shape(), s);
      return axis < 0 ? Sharding{} : Sharding{axis, s.parts};
    }
    case Op::PERMUTE: {
      const Ints& order = u.arg().ints();
      return {std::ranges::find(order, s.axis) - order.begin(), s.parts};
    }
    case Op::PAD:
    case Op::SHRINK:
      return u.src(at + 1).equals(0) && same_sizes(UOps{from[at]}, UOps{u.shape()[at]}) ? s : Sharding{};
    default: return s;
  }
}

}  // namespace

Sharding sharding_after(const UOp& u, std::span<const Sharding> sources) {
  if (u.op() == Op::MULTI) return {u.arg().integer(), std::ssize(u.src(0).device())};
  if (is_elementwise(u.op())) {
    const auto cut = std::ranges::find_if(sources, &Sharding::cut);
    return cut == sources.end() ? Sharding{} : *cut;
  }
  if (sources.empty() || !sources[0].cut()) return {};
  if (is_movement(u.op())) return through_movement(u, sources[0]);
  switch (u.op()) {
    case Op::REDUCE: {
      const Ints& axes = u.arg().reduce().axes;
      const bool over = u.arg().reduce().states != 1 || u.arg().reduce().op == Op::NOOP ||
                        std::ranges::find(axes, sources[0].axis) != axes.end();
      return over ? Sharding{} : sources[0];
    }
    case Op::CONTIGUOUS:
    case Op::CONTIGUOUS_BACKWARD:
    case Op::DETACH:
    case Op::NOOP:
    case Op::AFTER: return sources[0];
    default: return {};
  }
}

Shardings::Shardings(const UOp& root) : root_(root) {
  if (!root.ops_below().contains(Op::MULTI)) return;
  std::vector<Sharding> sources;
  walk(
      root, [](const UOp& u) { return u.ops_below().contains(Op::MULTI); },
      [&](const UOp& u) {
        sources.clear();
        for (const UOp& s : u.src()) sources.push_back((*this)[s]);
        const Sharding found = sharding_after(u, sources);
        if (found.cut()) known_.emplace(u, found);
      });
}

const UOp& memory_base(const UOp& x) {
  const UOp* u = &x;
  while (is_view(*u) || u->op() == Op::MULTI) u = &u->src(0);
  return *u;
}

}  // namespace quern
