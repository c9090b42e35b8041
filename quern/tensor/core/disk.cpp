#include "quern/tensor/core/disk.h"

#include <algorithm>
#include <ranges>

#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/shape/movement.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/support.h"

namespace quern::detail {
namespace {

bool is_file(const UOp& u) { return (u.op() == Op::BUFFER || u.op() == Op::AFTER) && is_on_disk(u); }

bool has_other_width(const UOp& u) {
  return u.op() == Op::BITCAST && u.dtype().bits() != u.src(0).dtype().bits();
}

// The bytes of memory that a view shows.
struct Stretch {
  int64_t begin, size;
};

// Of a SHRINK; none if they are not in order.
std::optional<Stretch> shrunk(const UOp& u, const Stretch& whole) {
  const UOps &from = u.src(0).shape(), &to = u.shape();
  int64_t stride = u.dtype().bytes(), begin = whole.begin, size = stride;
  bool is_cut = false;  // a later axis: then this one must have one element
  for (size_t i = from.size(); i-- > 0;) {
    const UOp& offset = u.src(1 + i);
    if (!from[i].is_int_const() || !to[i].is_int_const() || !offset.is_int_const()) return {};
    if (is_cut && !to[i].equals(1)) return {};
    is_cut = is_cut || !same(from[i], to[i]);
    begin += static_cast<int64_t>(offset.int_value()) * stride;
    size *= static_cast<int64_t>(to[i].int_value());
    stride *= static_cast<int64_t>(from[i].int_value());
  }
  return Stretch{begin, size};
}

// Of a view of `base` that shows bytes in order, as many as whole elements of base.
std::optional<Stretch> stretch_of(const UOp& view, const UOp& base) {
  std::vector<const UOp*> views;
  for (const UOp* u = &view; !same(*u, base); u = &u->src(0)) views.push_back(u);
  const int64_t element = base.dtype().bytes();
  std::optional<Stretch> bytes =
      Stretch{0, static_cast<int64_t>(elements_in(base.shape()).int_value()) * element};
  for (const UOp* u : views | std::views::reverse) {
    if (u->op() == Op::SHRINK) bytes = shrunk(*u, *bytes);
    const bool in_order =
        u->op() == Op::SHRINK || u->op() == Op::RESHAPE || u->op() == Op::BITCAST || u->op() == Op::DETACH;
    if (!in_order || !bytes) return {};
  }
  if (bytes->size == 0 || bytes->begin % element != 0 || bytes->size % element != 0) return {};
  return bytes;
}

// These bytes as elements of the memory.
UOp elements_at(const UOp& base, const Stretch& bytes) {
  const int64_t element = base.dtype().bytes();
  return quern::shrink(quern::reshape(base, UOps{elements_in(base.shape())}),
                       UOps{UOp::index(bytes.begin / element)}, UOps{UOp::index(bytes.size / element)});
}

// The elements in order, as elements of another dtype.
Tensor flat_as(const Tensor& x, DType dtype) { return x.flatten().bitcast(dtype); }

UOp copied_part(const UOp& view, const UOp& base, const UOp& device) {
  std::vector<const UOp*> rest;  // the views that are left, once the bytes of what they see are copied
  const UOp* u = &view;
  for (; !same(*u, base); u = &u->src(0)) {
    if (const std::optional<Stretch> bytes = stretch_of(*u, base)) {
      const Tensor raw(quern::copy_to(elements_at(base, *bytes), device));
      UOp copy = quern::reshape(flat_as(raw, u->dtype()).uop(), u->shape());
      for (const UOp* above : rest | std::views::reverse) {
        UOps sources(above->src().begin(), above->src().end());
        sources[0] = copy;
        copy = above->with_src(sources);
      }
      return copy;
    }
    rest.push_back(u);
  }
  return view.substitute({{base, quern::copy_to(base, device)}});
}

// Where the views up to `base` are undone: the value where it stands, and whether something stands there.
struct Spread {
  UOp value, stands;  // none: everywhere
};

UOp step_down(const UOp& u, const UOp& x) {
  const UOps& inner = u.src(0).shape();
  const Sources given = u.src().subspan(1);
  switch (u.op()) {
    case Op::RESHAPE: return quern::reshape(x, inner);
    case Op::FLIP: return quern::flip(x, u.arg().ints());
    case Op::PERMUTE: return quern::permute(x, inverse_order(u.arg().ints()));
    case Op::SHRINK: return quern::pad(x, given.first(inner.size()), inner);
    case Op::PAD: return quern::shrink(x, given.first(inner.size()), inner);
    default: return x;
  }
}

UOp rewritten(const UOp& bitcast) {
  return has_other_width(bitcast) ? bitcast_to_width(Tensor(bitcast.src(0)), bitcast.dtype()).uop() : UOp();
}

const Rules other_widths = [] { return RuleList{{op(Op::BITCAST).as("bitcast"), rewritten}}; };

}  // namespace

bool is_on_disk(const UOp& u) {
  const Texts devices = u.device();
  return devices.size() == 1 && devices[0].starts_with("DISK");
}

UOp copied_from_disk(const UOp& value, const std::string& device) {
  const UOp to = device_node(device), &base = viewed_by(value);
  if (is_file(base)) return copied_part(value, base, to);
  std::unordered_map<UOp, UOp> copies;
  walk(
      value, [](const UOp& u) { return u.op() != Op::COPY && !is_file(u); },
      [&](const UOp& u) {
        if (is_file(u)) copies.emplace(u, quern::copy_to(u, to));
        if (u.op() == Op::COPY && is_on_disk(u))  // what goes to a file is known without it
          copies.emplace(u, quern::copy_to(copied_from_disk(u.src(0), device), to));
      });
  return copies.empty() ? value : value.substitute(copies);
}

UOp written_to_disk(const char* who, const UOp& view, const UOp& base, const Tensor& value) {
  const Texts given = value.devices();
  const std::string device = given.size() == 1 && !is_on_disk(value.uop()) ? given[0] : default_device();
  Tensor there(copied_from_disk(value.uop(), device));
  if (given.size() > 1) there = there.to(device);
  const auto in_file = [&](const Tensor& x) {
    return quern::copy_to(in_new_memory(who, x).uop(), device_node(base.device()[0]));
  };
  if (const std::optional<Stretch> bytes = stretch_of(view, base))
    return quern::store(elements_at(base, *bytes), in_file(flat_as(there, base.dtype())));
  const UOp old = quern::copy_to(base, device_node(device));
  Spread now{there.uop(), {}};
  const auto everywhere = [&](const UOp& before) {
    if (now.stands) now = {Tensor(now.stands).where(Tensor(now.value), Tensor(before)).uop(), {}};
  };
  for (const UOp* u = &view; !same(*u, base); u = &u->src(0)) {
    if (u->op() == Op::BITCAST) {
      everywhere(u->substitute({{base, old}}));
      now.value = Tensor(now.value).bitcast(u->src(0).dtype()).uop();
    } else {
      if (!now.stands) now.stands = quern::full(now.value.shape(), UOp::boolean(true));
      now = {step_down(*u, now.value), step_down(*u, now.stands)};
    }
  }
  everywhere(old);
  return quern::store(base, in_file(Tensor(now.value)));
}

UOp without_other_widths(const UOp& graph) {
  if (!graph.ops_below().contains(Op::BITCAST) || !graph.ops_below().contains(Op::COPY)) return graph;
  bool found = false;
  walk(graph, [&](const UOp& u) { found = found || has_other_width(u); });
  return found ? graph_rewrite(graph, other_widths, {.name = "bitcasts to other widths"}) : graph;
}

}  // namespace quern::detail
