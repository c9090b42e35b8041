#include "quern/ir/shape/movement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quern/ir/node/derived.h"
#include "quern/ir/node/node_map.h"

namespace quern {
namespace {

UOps with_first(const UOp& x, Sources rest) {
  UOps sources{x};
  sources.insert(sources.end(), rest.begin(), rest.end());
  return sources;
}

// Makes the node and has its shape computed, which is where sizes are checked.
UOp checked(UOp made) {
  (void)made.shape();
  return made;
}

bool all_zero(Sources offsets) {
  return std::ranges::all_of(offsets, [](const UOp& o) { return o.equals(0); });
}

}  // namespace

UOps sizes_of(const Ints& sizes) {
  UOps result;
  result.reserve(sizes.size());
  for (int64_t s : sizes) result.push_back(UOp::index(s));
  return result;
}

std::string shape_text(Sources sizes) {
  std::string s;
  for (const UOp& d : sizes)
    s += (s.empty() ? "" : ", ") + (d.is_int_const() ? to_string(d.int_value()) : d.text());
  return sizes.size() == 1 ? "(" + s + ",)" : "(" + s + ")";
}

UOp elements_in(Sources sizes) {
  wide count = 1;
  UOp product;
  for (const UOp& s : sizes) {
    if (s.is_int_const())
      count *= s.int_value();
    else
      product = product ? product * s : s;
  }
  if (!product) return UOp::constant(dtypes::index, count);
  return (product * UOp::constant(dtypes::index, count)).simplify();
}

bool same_sizes(Sources a, Sources b) {
  return std::ranges::equal(a, b, [](const UOp& x, const UOp& y) {
    return same(x, y) || (!x.is_const() && same(x.simplify(), y.simplify()));
  });
}

UOp reshape(const UOp& x, Sources sizes) {
  if (same_sizes(x.shape(), sizes)) return x;
  const UOp& from = x.op() == Op::RESHAPE ? x.src(0) : x;
  if (!same(from, x) && same_sizes(from.shape(), sizes)) return from;
  return checked(UOp::make(Op::RESHAPE, x.dtype(), with_first(from, sizes)));
}

UOp expand(const UOp& x, Sources sizes) {
  if (same_sizes(x.shape(), sizes)) return x;
  const UOp& from = x.op() == Op::EXPAND ? x.src(0) : x;
  return checked(UOp::make(Op::EXPAND, x.dtype(), with_first(from, sizes)));
}

UOp permute(const UOp& x, Ints order) {
  if (order.size() == x.shape().size() && std::ranges::is_sorted(order) &&
      (order.empty() || (order.front() == 0 && order.back() == std::ssize(order) - 1)))
    return x;
  return checked(UOp::make(Op::PERMUTE, x.dtype(), {x}, std::move(order)));
}

Ints inverse_order(const Ints& order) {
  Ints inverse(order.size());
  for (size_t i = 0; i < order.size(); i++) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

UOp flip(const UOp& x, Ints axes) {
  std::ranges::sort(axes);
  if (axes.empty()) return x;
  return checked(UOp::make(Op::FLIP, x.dtype(), {x}, std::move(axes)));
}

UOp pad(const UOp& x, Sources offsets, Sources sizes) {
  if (all_zero(offsets) && same_sizes(x.shape(), sizes)) return x;
  UOps sources = with_first(x, offsets);
  sources.insert(sources.end(), sizes.begin(), sizes.end());
  return checked(UOp::make(Op::PAD, x.dtype(), sources));
}

// The argument keeps it apart from a PAD that computes.
UOp pad_unseen(const UOp& x, Sources sizes) {
  UOps sources = with_first(x, UOps(sizes.size(), UOp::index(0)));
  sources.insert(sources.end(), sizes.begin(), sizes.end());
  return checked(UOp::make(Op::PAD, x.dtype(), sources, int64_t{1}));
}

UOp shrink(const UOp& x, Sources offsets, Sources sizes) {
  if (all_zero(offsets) && same_sizes(x.shape(), sizes)) return x;
  UOps sources = with_first(x, offsets);
  sources.insert(sources.end(), sizes.begin(), sizes.end());
  return checked(UOp::make(Op::SHRINK, x.dtype(), sources));
}

UOp reduce(const UOp& x, Op op, Ints axes) {
  std::ranges::sort(axes);
  std::erase_if(axes, [&](int64_t axis) {
    return axis >= 0 && axis < std::ssize(x.shape()) && x.shape()[static_cast<size_t>(axis)].equals(1);
  });
  if (axes.empty()) return x;
  return checked(
      UOp::make(Op::REDUCE, x.dtype(), {x}, ReduceArg{.op = op, .axes = std::move(axes), .states = 1}));
}

UOp contiguous(const UOp& x) { return UOp::make(Op::CONTIGUOUS, x.dtype(), {x}); }
UOp detach(const UOp& x) { return UOp::make(Op::DETACH, x.dtype(), {x}); }
UOp device_node(const std::string& name) { return UOp::make(Op::DEVICE, dtypes::void_, {}, Texts{name}); }

UOp copy_to(const UOp& x, const UOp& device) {
  if (x.device() == device.arg().texts()) return x;
  return UOp::make(Op::COPY, x.dtype(), {x, device});
}

UOp store(const UOp& target, const UOp& value) {
  if (target.dtype() != value.dtype())
    throw DTypeError(fmt::format("STORE of {} into {}", value.dtype().name(), target.dtype().name()));
  if (!same_sizes(target.shape(), value.shape()))
    throw ShapeError(fmt::format("STORE of shape {} into shape {}", shape_text(value.shape()),
                                 shape_text(target.shape())));
  return UOp::make(Op::STORE, dtypes::void_, {target, value});
}

UOp after(const UOp& x, Sources effects) {
  if (effects.empty()) return x;
  return UOp::make(Op::AFTER, x.dtype(), with_first(x, effects));
}

static UOp new_identity() {
  static constinit std::atomic<int64_t> next{0};
  return UOp::make(Op::UNIQUE, dtypes::void_, {}, next.fetch_add(1, std::memory_order_relaxed));
}

UOp new_buffer(DType dtype, int64_t elements, const UOp& device) {
  if (!fits(dtypes::int64, wide{elements} * dtype.bytes()))
    throw ShapeError(
        fmt::format("{} elements of {} have more bytes than can be counted", elements, dtype.name()));
  return UOp::make(Op::BUFFER, dtype, {new_identity(), device}, elements);
}

UOp with_new_identity(const UOp& x) {
  return x.is_const() ? x.with_src(UOps{new_identity()})
                      : UOp::make(Op::NOOP, x.dtype(), {x, new_identity()});
}

UOp without_identity(const UOp& x) {
  if (x.src().empty() || x.src().back().op() != Op::UNIQUE) return {};
  if (x.op() == Op::CONST) return x.with_src(UOps{});
  return x.op() == Op::NOOP ? x.src(0) : UOp();
}

UOp full(Sources sizes, const UOp& constant) {
  const UOps ones(sizes.size(), UOp::index(1));
  return expand(reshape(constant, ones), sizes);
}

const UOp& base_of(const UOp& x) {
  const UOp* u = &x;
  while (is_movement(u->op())) u = &u->src(0);
  return *u;
}

// Memory that is written n times is asked for at each of them: what is found is kept for all on the way.
const UOp& under_reshapes(const UOp& x) {
  const UOp* at = &x;
  while (at->op() == Op::RESHAPE) at = &at->src(0);
  return *at;
}

const UOp& memory_under(const UOp& x) {
  constexpr int kShort = 4;
  const auto known = [](const UOp& u) {
    return detail::derived_of(u.node()).memory.load(std::memory_order_acquire);
  };
  const UOp* u = &x;
  for (int steps = 0; steps < kShort && u->op() == Op::AFTER; steps++) u = &u->src(0);
  if (u->op() != Op::AFTER) return *u;
  while (u->op() == Op::AFTER) {
    const UOp* memory = known(*u);
    u = memory != nullptr ? memory : &u->src(0);
  }
  for (const UOp* after = &x; after->op() == Op::AFTER && known(*after) == nullptr; after = &after->src(0))
    detail::derived_of(after->node()).memory.store(u, std::memory_order_release);
  return *u;
}

bool is_view(const UOp& x) {
  if (x.op() == Op::PAD) return !x.arg().none();
  return is_movement(x.op()) || x.op() == Op::DETACH || x.op() == Op::BITCAST;
}

const UOp& viewed_by(const UOp& x) {
  const UOp* u = &x;
  while (is_view(*u)) u = &u->src(0);
  return *u;
}

UOp without_detach(const UOp& view) {
  if (view.op() == Op::DETACH) return without_detach(view.src(0));
  if (!is_movement(view.op()) && view.op() != Op::BITCAST) return view;
  UOps sources(view.src().begin(), view.src().end());
  sources[0] = without_detach(view.src(0));
  return same(sources[0], view.src(0)) ? view : view.with_src(sources);
}

std::vector<bool> written_params(const UOp& kernel, size_t count) {
  std::vector<bool> written(count);
  walk(kernel, [&](const UOp& u) {
    if (u.op() != Op::STORE) return;
    const UOp* target = &u.src(0);
    while (target->op() != Op::PARAM && !target->src().empty()) target = &target->src(0);
    if (target->op() != Op::PARAM) return;
    const auto slot = static_cast<size_t>(target->arg().integer());
    if (slot < count) written[slot] = true;
  });
  return written;
}

UOps written_arguments(const UOp& call) {
  const Sources arguments = call.src().subspan(1);
  const std::vector<bool> written = written_params(call.src(0), arguments.size());
  UOps found;
  for (size_t i = 0; i < arguments.size(); i++)
    if (written[i] && std::ranges::find(found, arguments[i]) == found.end()) found.push_back(arguments[i]);
  return found;
}

}  // namespace quern
