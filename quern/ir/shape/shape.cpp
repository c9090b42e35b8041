// Shapes, open ranges and devices: facts that flow from sources to users.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quern/ir/node/derived.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/node/saturate.h"
#include "quern/ir/node/uop.h"

namespace quern {
namespace {

// ---- shapes -----------------------------------------------------------------------------------------------

// Inside this file a node without a shape has the shape {none}.
const UOps kNoShape = {UOp()};
bool is_no_shape(const UOps& shape) { return shape.size() == 1 && !shape[0]; }

std::string text(const UOp& size) { return size.is_int_const() ? to_string(size.int_value()) : size.text(); }
std::string list(Sources sizes) {
  std::string s;
  for (const UOp& d : sizes) s += (s.empty() ? "" : ", ") + text(d);
  return "(" + s + ")";
}

[[noreturn]] void fail(const UOp& u, const std::string& why) {
  throw ShapeError(fmt::format("{}: {}", name(u.op()), why));
}

UOp plus(const UOp& a, const UOp& b) { return (a + b).simplify(); }
UOp product(Sources sizes) {
  wide numbers = 1;
  UOp symbols;
  for (const UOp& s : sizes) {
    if (s.is_int_const() && numbers < kWideMax >> 64)
      numbers *= s.int_value();
    else
      symbols = symbols ? symbols * s : s;
  }
  if (!symbols && fits(dtypes::index, numbers)) return UOp::constant(dtypes::index, numbers);
  UOp p = UOp::index(1);
  for (const UOp& s : sizes) p = (p * s).simplify();
  return p;
}
bool surely_equal(const UOp& a, const UOp& b) {
  return same(a, b) || ((!a.is_const() || !b.is_const()) && same(a.simplify(), b.simplify()));
}
bool surely_different(const UOp& a, const UOp& b) { return a.vmax() < b.vmin() || b.vmax() < a.vmin(); }
bool surely_below(const UOp& a, const UOp& b) { return a.vmax() < b.vmin(); }

// Sizes given as sources: index numbers, none surely negative.
UOps sizes(const UOp& u, Sources given) {
  for (const UOp& s : given) {
    if (!s.dtype().is_index()) fail(u, fmt::format("a size has dtype {}, not index", s.dtype().name()));
    if (s.vmin() < 0)
      fail(u, s.is_const()
                  ? fmt::format("negative size {} in {}", to_string(s.int_value()), list(given))
                  : fmt::format("a size may be negative, {}, in {}", to_string(s.vmin()), list(given)));
  }
  return {given.begin(), given.end()};
}

// PAD and SHRINK: as many offsets as sizes as axes; `inner` must lie within `outer` at the offset.
UOps window(const UOp& u, const UOps& x) {
  const Sources given = u.src().subspan(1);
  const size_t n = x.size();
  if (given.size() != 2 * n) fail(u, fmt::format("{} axes need {} numbers, got {}", n, 2 * n, given.size()));
  const UOps offsets = sizes(u, given.first(n)), result = sizes(u, given.last(n));
  for (size_t i = 0; i < n; i++) {
    const UOp& inner = u.op() == Op::PAD ? x[i] : result[i];
    const UOp& outer = u.op() == Op::PAD ? result[i] : x[i];
    if (surely_below(outer, plus(offsets[i], inner)))
      fail(u, fmt::format("axis {}: size {} at offset {} does not lie within size {}", i, text(inner),
                          text(offsets[i]), text(outer)));
  }
  return result;
}

UOps compute_shape(const UOp& u);

UOps shape_of(const UOp& u) { return *detail::derived_of(u.node()).shape.load(std::memory_order_acquire); }

UOps reduced(const UOp& u, UOps x) {
  for (int64_t axis : u.arg().reduce().axes) {
    if (axis < 0 || axis >= std::ssize(x)) fail(u, fmt::format("axis {} of shape {}", axis, list(x)));
    x[static_cast<size_t>(axis)] = UOp::index(1);
  }
  return x;
}

// A bitcast to another width: the last axis is as many bytes as it was.
UOps of_other_width(const UOp& u) {
  UOps shape = shape_of(u.src(0));
  const int64_t from = u.src(0).dtype().bits(), to = u.dtype().bits();
  if (is_no_shape(shape) || shape.empty()) fail(u, "a bitcast to another width needs an axis");
  UOp& last = shape.back();
  if (to > from && (!last.is_int_const() || last.int_value() % (to / from) != 0))
    fail(u, fmt::format("the last axis of {} is no multiple of {}", list(shape), to / from));
  last = (to > from ? last / (to / from) : last * (from / to)).simplify();
  return shape;
}

UOps elementwise(const UOp& u) {
  if (u.op() == Op::BITCAST && u.dtype().bits() != u.src(0).dtype().bits()) return of_other_width(u);
  UOps first = kNoShape;
  for (const UOp& s : u.src()) {
    const UOps shape = shape_of(s);
    if (is_no_shape(shape)) fail(u, fmt::format("source {} has no shape", name(s.op())));
    if (is_no_shape(first)) {
      first = shape;
      continue;
    }
    bool equal = first.size() == shape.size();
    for (size_t i = 0; equal && i < shape.size(); i++) equal = surely_equal(first[i], shape[i]);
    if (!equal) fail(u, fmt::format("shapes {} and {} differ", list(first), list(shape)));
  }
  return first;
}

UOps compute_shape(const UOp& u) {
  auto x = [&] { return shape_of(u.src(0)); };
  auto needed = [&] {
    UOps shape = x();
    if (is_no_shape(shape)) fail(u, fmt::format("source {} has no shape", name(u.src(0).op())));
    return shape;
  };
  if (is_elementwise(u.op())) return elementwise(u);
  const Sources rest = u.src().empty() ? u.src() : u.src().subspan(1);
  switch (u.op()) {
    case Op::CONST:
    case Op::DEFINE_VAR:
    case Op::BIND:
    case Op::RANGE:
    case Op::SPECIAL:
    case Op::STATE:
    case Op::VECTORIZE:
    case Op::GEP:
    case Op::UNROLL:
    case Op::CONTRACT:
    case Op::WMMA: return {};
    case Op::BUFFER:
    case Op::SLICE: return {UOp::index(u.arg().integer())};
    case Op::DEFINE_LOCAL:
    case Op::DEFINE_REG: return {UOp::index(std::max<int64_t>(u.dtype().size(), 0))};
    case Op::PARAM: {
      if (u.dtype().is_ptr()) return u.dtype().size() < 0 ? kNoShape : UOps{UOp::index(u.dtype().size())};
      Sources dims = u.src();
      if (!dims.empty() && dims.back().op() == Op::DEVICE) dims = dims.first(dims.size() - 1);
      return sizes(u, dims);
    }
    case Op::IOTA: return sizes(u, u.src());
    case Op::RESHAPE: {
      const UOps from = needed(), to = sizes(u, rest);
      const UOp before = product(from), after = product(to);
      if (surely_different(before, after))
        fail(u,
             fmt::format("{} has {} elements, {} has {}", list(from), text(before), list(to), text(after)));
      return to;
    }
    case Op::EXPAND: {
      const UOps from = needed(), to = sizes(u, rest);
      if (from.size() != to.size())
        fail(u, fmt::format("{} to {}: expanding keeps the number of axes", list(from), list(to)));
      for (size_t i = 0; i < to.size(); i++)
        if (!from[i].equals(1) && !surely_equal(from[i], to[i]))
          fail(u, fmt::format("{} to {}: axis {} is neither 1 nor the same", list(from), list(to), i));
      return to;
    }
    case Op::PAD:
    case Op::SHRINK: return window(u, needed());
    case Op::PERMUTE: {
      const UOps from = needed();
      Ints sorted = u.arg().ints(), all(from.size());
      std::ranges::sort(sorted);
      std::iota(all.begin(), all.end(), 0);
      if (sorted != all)
        fail(u, fmt::format("[{}] is not a permutation of the axes of {}", fmt::join(u.arg().ints(), ", "),
                            list(from)));
      UOps to;
      for (int64_t axis : u.arg().ints()) to.push_back(from[static_cast<size_t>(axis)]);
      return to;
    }
    case Op::FLIP: {
      UOps from = needed();
      for (int64_t axis : u.arg().ints())
        if (axis < 0 || axis >= std::ssize(from))
          fail(u, fmt::format("axis {} of shape {}", axis, list(from)));
      return from;
    }
    case Op::REDUCE:
      return u.arg().reduce().states == 1 && u.arg().reduce().op != Op::NOOP ? reduced(u, needed())
                                                                             : kNoShape;
    case Op::GETTUPLE: {
      const UOp& tuple = u.src(0).op() == Op::FUNCTION ? u.src(0).src(0) : u.src(0);
      const bool reduce = tuple.op() == Op::REDUCE;
      const int64_t i = u.arg().integer(),
                    count = reduce ? tuple.arg().reduce().states : std::ssize(tuple.src());
      if (i < 0 || i >= std::min(count, std::ssize(tuple.src())))
        fail(u, fmt::format("value {} of {}", i, count));
      const UOps shape = shape_of(tuple.src(static_cast<size_t>(i)));
      return reduce ? reduced(tuple, shape) : shape;
    }
    case Op::STAGE: {
      UOps shape;
      for (const UOp& r : rest) shape.push_back(r.op() == Op::RANGE ? r.src(0) : UOp::index(1));
      return shape;
    }
    case Op::INDEX: {
      UOps from = x();
      if (is_no_shape(from)) return {};  // memory of unknown size, one element of it
      if (rest.size() > from.size())
        fail(u, fmt::format("{} indices into shape {}", rest.size(), list(from)));
      from.erase(from.begin(), from.begin() + std::ssize(rest));
      return from;
    }
    case Op::MULTI: {
      UOps shape = needed();
      const int64_t axis = u.arg().integer();
      if (axis < 0 || axis >= std::ssize(shape))
        fail(u, fmt::format("axis {} of shape {}", axis, list(shape)));
      UOp& size = shape[static_cast<size_t>(axis)];
      size = (size * static_cast<int64_t>(u.src(0).device().size())).simplify();
      return shape;
    }
    case Op::CONTIGUOUS:
    case Op::CONTIGUOUS_BACKWARD:
    case Op::DETACH:
    case Op::COPY:
    case Op::ALLREDUCE:
    case Op::MSELECT:
    case Op::MSTACK:
    case Op::AFTER:
    case Op::LOAD:
    case Op::FUNCTION: return x();
    case Op::NOOP: return u.src().empty() ? kNoShape : x();
    default: return kNoShape;
  }
}

const UOps& computed_shape(const UOp& root) {
  auto known = [](const UOp& u) {
    return detail::derived_of(u.node()).shape.load(std::memory_order_acquire) != nullptr;
  };
  detail::compute_upwards(root, known, [](const UOp& u) {
    detail::publish(detail::derived_of(u.node()).shape, compute_shape(u));
  });
  return *detail::derived_of(root.node()).shape.load(std::memory_order_acquire);
}

// ---- ranges -----------------------------------------------------------------------------------------------

// How many of the last sources are ranges that end at this node.
size_t ended(const UOp& u) {
  switch (u.op()) {
    case Op::END:
    case Op::STAGE:
    case Op::REDUCE: return u.src().size() - std::min(sources_before_ranges(u), u.src().size());
    default: return 0;
  }
}

void add_sorted(UOps& into, const UOp& range) {
  const auto at = std::ranges::lower_bound(into, range, before);
  if (at == into.end() || !same(*at, range)) into.insert(at, range);
}

UOps compute_ranges(const UOp& u) {
  auto of = [](const UOp& s) -> const UOps& {
    return *detail::derived_of(s.node()).ranges.load(std::memory_order_acquire);
  };
  UOps open;
  const size_t kept = u.src().size() - ended(u);
  for (const UOp& s : u.src().first(kept))
    if (s.ops_below().contains(Op::RANGE))
      for (const UOp& r : of(s)) add_sorted(open, r);
  for (const UOp& closed : u.src().subspan(kept)) {
    if (!closed.ops_below().contains(Op::RANGE)) continue;
    const bool single =
        closed.op() == Op::RANGE;  // else an expression of ranges, as after one was split: all end
    std::erase_if(open, [&](const UOp& r) {
      return single ? same(r, closed) : std::ranges::binary_search(of(closed), r, before);
    });
    if (single)  // what its end depends on stays open
      for (const UOp& r : of(closed))
        if (!same(r, closed)) add_sorted(open, r);
  }
  if (u.op() == Op::RANGE) add_sorted(open, u);
  return open;
}

const UOps kNoRanges;

}  // namespace

bool UOp::has_shape() const { return !is_no_shape(computed_shape(*this)); }

const UOps& UOp::shape() const {
  const UOps& shape = computed_shape(*this);
  if (is_no_shape(shape)) throw ShapeError(fmt::format("{} has no shape", quern::name(op())));
  return shape;
}

Ints UOp::int_shape() const {
  Ints result;
  for (const UOp& s : shape()) {
    if (!s.is_const())
      throw ShapeError(fmt::format("{}: shape {} has a symbolic size", quern::name(op()), list(shape())));
    result.push_back(static_cast<int64_t>(s.int_value()));
  }
  return result;
}

const UOps& UOp::ranges() const {
  if (!ops_below().contains(Op::RANGE)) return kNoRanges;
  auto known = [](const UOp& u) {
    return !u.ops_below().contains(Op::RANGE) ||
           detail::derived_of(u.node()).ranges.load(std::memory_order_acquire) != nullptr;
  };
  detail::compute_upwards(*this, known, [](const UOp& u) { detail::publish_ranges(u, compute_ranges(u)); });
  return *detail::derived_of(node_).ranges.load(std::memory_order_acquire);
}

// The device of the first source that has one. Not kept: the walk stops at the first memory it meets.
namespace {

// The source of `u` that says where it is; `u` has a DEVICE below it and is none.
const UOp& towards_device(const UOp& u) {
  constexpr OpSet kNamedLast = {Op::BUFFER, Op::COPY, Op::ALLREDUCE, Op::PARAM, Op::CONST};
  if (kNamedLast.contains(u.op())) return u.src().back();
  return *std::ranges::find_if(u.src(), [](const UOp& s) { return s.ops_below().contains(Op::DEVICE); });
}

// The node that names the devices of `u`: `u` itself or one below it; null if there is none. What is found is
// kept, since tensors are asked at each op that is made of them.
const UOp* memory_place_of(const UOp& u) {
  const auto names = [](const UOp& v) { return OpSet{Op::DEVICE, Op::MSELECT, Op::MSTACK}.contains(v.op()); };
  if (names(u)) return &u;
  if (!u.ops_below().contains(Op::DEVICE)) return nullptr;
  std::atomic<const UOp*>& kept = detail::derived_of(u.node()).place;
  if (const UOp* known = kept.load(std::memory_order_acquire)) return known;
  const UOp* place = &towards_device(u);
  while (place->ops_below().contains(Op::DEVICE) && !names(*place)) {
    const UOp* known = detail::derived_of(place->node()).place.load(std::memory_order_acquire);
    place = known ? known : &towards_device(*place);
  }
  if (!names(*place)) return nullptr;
  kept.store(place, std::memory_order_release);
  return place;
}

}  // namespace

Texts UOp::device() const {
  const UOp* place = memory_place_of(*this);
  if (!place) return {};
  if (place->op() == Op::DEVICE) return place->arg().texts();
  Texts all;
  for (const UOp& s : place->src()) {  // their sources are memory: the walk from each of them is short
    const Texts of = s.device();
    all.insert(all.end(), of.begin(), of.end());
  }
  if (place->op() == Op::MSTACK) return all;
  const auto i = static_cast<size_t>(place->arg().integer());
  return i < all.size() ? Texts{all[i]} : Texts{};
}

}  // namespace quern
