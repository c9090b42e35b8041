// Memory: assignment, copies, and what marks a value for memory.
#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/tensor/core/assign.h"
#include "quern/tensor/core/disk.h"
#include "quern/tensor/core/support.h"

namespace quern {
namespace detail {
namespace {

bool names_memory(const UOp& u) {
  const UOp& base = u.op() == Op::MULTI ? memory_base(u) : u;
  return base.op() == Op::BUFFER || base.op() == Op::AFTER;
}

// Whether each element of the view is a place in memory of its own, in order or with padding between them.
enum class ViewKind { memory, repeated, padded, computed };
ViewKind kind_of_view(const UOp& view) {
  bool expanded = false, padded = false;
  for (const UOp* u = &view; is_view(*u); u = &u->src(0)) {
    expanded = expanded || u->op() == Op::EXPAND;
    padded = padded || u->op() == Op::PAD;
  }
  if (!names_memory(viewed_by(view))) return ViewKind::computed;
  return expanded ? ViewKind::repeated : padded ? ViewKind::padded : ViewKind::memory;
}

// The same view of what is in memory: without what reads its bits as another dtype, or ends gradients.
UOp places_of(const UOp& view) {
  if (view.op() == Op::DETACH || view.op() == Op::BITCAST) return places_of(view.src(0));
  if (!is_view(view)) return view;
  UOps sources(view.src().begin(), view.src().end());
  sources[0] = places_of(view.src(0));
  return same(sources[0], view.src(0)) ? view : UOp::make(view.op(), sources[0].dtype(), sources, view.arg());
}

// Undoes the views between `view` and what it sees: the value stands where it would be written, zeros
// elsewhere.
UOp spread(const UOp& view, const UOp& value) {
  UOp v = value;
  for (const UOp* u = &view; is_view(*u); u = &u->src(0)) {
    const UOps& inner = u->src(0).shape();
    const Sources given = u->src().subspan(1);
    switch (u->op()) {
      case Op::RESHAPE: v = quern::reshape(v, inner); break;
      case Op::FLIP: v = quern::flip(v, u->arg().ints()); break;
      case Op::PERMUTE: v = quern::permute(v, inverse_order(u->arg().ints())); break;
      case Op::SHRINK: v = quern::pad(v, given.first(inner.size()), inner); break;
      case Op::PAD: v = quern::shrink(v, given.first(inner.size()), inner); break;
      default: QUERN_CHECK(false, "a view whose elements are not places");
    }
  }
  return v;
}

// The whole memory, as it is when the value is written through a view with padding.
UOp written_through(const UOp& view, const UOp& base, const UOp& value) {
  const UOp yes = quern::full(value.shape(), UOp::boolean(true));
  return Tensor(spread(view, yes)).where(Tensor(spread(view, value)), Tensor(base)).uop();
}

}  // namespace

const UOp& whole_of(const UOp& view) {
  const UOp *u = &view, *repeats = nullptr;
  for (; is_view(*u); u = &u->src(0))
    if (u->op() == Op::EXPAND) repeats = u;
  return u->is_const() && repeats != nullptr ? *repeats : *u;
}

UOp new_memory(const char* who, DType dtype, const UOps& sizes, const UOp& device) {
  (void)checked_shape(who, shape_from(sizes));
  const UOp elements = elements_in(sizes);
  UOp memory = new_buffer(dtype, static_cast<int64_t>(elements.vmax()), device);
  if (!elements.is_int_const()) memory = quern::shrink(memory, UOps{UOp::index(0)}, UOps{elements});
  return quern::reshape(memory, sizes);
}

UOp new_memory_like(const char* who, const Tensor& x, DType dtype) {
  const UOp value = x.uop();
  const Sharding sharding = Shardings(value)[value];
  const Texts named = value.device();
  const UOp device =
      UOp::make(Op::DEVICE, dtypes::void_, {}, named.empty() ? Texts{default_device()} : named);
  return sharded(new_memory(who, dtype, part_sizes(value.shape(), sharding), device), sharding);
}

Tensor beside_parts(const Tensor& options, const Tensor& x, const TensorOptions& where) {
  if (!where.device.empty() || x.devices().size() < 2) return options;
  const UOp value = x.uop();
  const Sharding sharding = Shardings(value)[value];
  return options.shard(x.devices(), sharding.cut() ? std::optional(sharding.axis) : std::nullopt);
}

namespace {

Tensor stored(const UOp& seen, const UOp& value) {
  const UOp& memory = seen.op() == Op::MULTI ? seen : base_of(seen);
  const UOp written = quern::after(memory, UOps{quern::store(seen, value)});
  return Tensor(seen.substitute({{memory, written}}));
}

}  // namespace

Tensor in_new_memory(const char* who, const Tensor& x) {
  return stored(new_memory_like(who, x, x.dtype()), x.uop());
}

Tensor zeros_beside(const Tensor& x, DType dtype) {
  return stored(new_memory_like("zeros", x, dtype), Tensor::zeros(x.shape(), {.dtype = dtype}).uop());
}

void assign_view(const char* who, const UOp& view, const Operand& value) {
  const Shape shape = shape_from(view.shape());
  const Tensor stored = to_write(who, value, view.dtype(), shape);
  const Texts from = stored.devices(), to = view.device();
  const bool is_file = is_on_disk(view);
  if (!is_file && !from.empty() && !to.empty() && from != to)
    throw Error(fmt::format("{}: the value is on {}, the tensor on {}; move it with to()", who,
                            fmt::join(from, "+"), fmt::join(to, "+")));
  const ViewKind place = kind_of_view(view);
  if (place == ViewKind::repeated)
    throw Error(
        fmt::format("{}: the tensor is an expanded view: several of its elements are one place in memory; "
                    "clone() it first",
                    who));
  QUERN_CHECK(place != ViewKind::computed, "assignment to a value that has no memory");
  const UOp base = viewed_by(view);
  if (is_file) return replace_views(base, quern::after(base, UOps{written_to_disk(who, view, base, stored)}));
  const UOp target = places_of(view);
  UOp written = stored.uop();
  if (!same(without_detach(view), view)) written = quern::detach(written);
  if (written.dtype() != base.dtype()) written = written.bitcast(base.dtype());
  const UOp effect = place == ViewKind::memory ? quern::store(target, written)
                                               : quern::store(base, written_through(target, base, written));
  replace_views(base, quern::after(base, UOps{effect}));
}

bool is_writable(const UOp& view) { return kind_of_view(view) == ViewKind::memory; }

bool has_memory(const UOp& view) { return kind_of_view(view) != ViewKind::computed; }

void share_memory(const char* who, const Tensor& x) {
  const UOp mine = x.uop();
  if (has_memory(mine)) return;
  const UOp& whole = whole_of(mine);
  if (views_in_family(*x.state(), whole) > 1)
    replace_views(whole, in_new_memory(who, Tensor(whole)).uop(), x.state().get());
}

}  // namespace detail

const Tensor& Tensor::assign(const Operand& value) const {
  detail::share_memory("assign", *this);
  if (!detail::has_memory(uop()) && detail::is_on_disk(uop()))
    state_->set(detail::in_new_memory("assign", *this).uop());
  if (detail::has_memory(uop())) {
    detail::assign_view("assign", uop(), value);
    return *this;
  }
  const Tensor given = detail::to_write("assign", value, dtype(), shape());
  // A copy, not another name for the same value: what is written there later is not seen here.
  const UOp its = given.uop();
  state()->set(detail::has_memory(its) ? quern::contiguous(its) : detail::own_value(given).uop());
  return *this;
}

const Tensor& Tensor::replace(const Tensor& other) const {
  const UOp mine = uop(), its = other.uop();
  if (!same_sizes(mine.shape(), its.shape()))
    throw Error(
        fmt::format("replace: {} by {}: the shape must stay", detail::text(*this), detail::text(other)));
  state()->set(its);
  return *this;
}

Tensor Tensor::detach() const {
  const UOp mine = uop();
  return mine.op() == Op::DETACH ? *this : seen_as(quern::detach(mine));
}

Tensor Tensor::contiguous() const {
  const UOp u = uop();
  const UOp& below = u.op() == Op::RESHAPE ? u.src(0) : u;
  if (u.op() == Op::CONTIGUOUS || below.op() == Op::BUFFER || below.op() == Op::AFTER ||
      (below.op() == Op::MULTI && detail::has_memory(below)))
    return seen_as(u);
  return Tensor(quern::contiguous(u));
}
Tensor Tensor::contiguous(const std::string& opts) const {
  const UOp u = uop();
  return Tensor(UOp::make(Op::CONTIGUOUS, u.dtype(), {u}, Texts{opts}));
}
Tensor Tensor::contiguous_backward() const {
  const UOp u = uop();
  return Tensor(UOp::make(Op::CONTIGUOUS_BACKWARD, u.dtype(), {u}));
}
Tensor Tensor::clone() const {
  const Tensor copy = detail::in_new_memory("clone", *this);
  copy.state_->requires_grad = state_->requires_grad;
  if (const auto gradient = grad()) copy.set_grad(gradient->clone());
  return copy;
}

Tensor Tensor::to(const std::string& device) const {
  const std::string name = detail::device_name("to", device);
  const UOp u = uop();
  const bool is_file = name.starts_with("DISK"), is_everywhere = u.device().empty();
  if (is_file && is_everywhere)  // no kernel makes it there
    return Tensor(quern::copy_to(detail::in_new_memory("to", *this).uop(), device_node(name)));
  if (!detail::is_on_disk(u) || u.device()[0] == name) return Tensor(quern::copy_to(u, device_node(name)));
  const Tensor copy(detail::copied_from_disk(u, is_file ? default_device() : name));
  return is_file ? copy.to(name) : copy;
}

Tensor Tensor::shard(const std::vector<std::string>& devices, std::optional<int64_t> axis) const {
  if (devices.empty()) throw ValueError("shard: no devices are named");
  Texts names;
  for (const std::string& name : devices) {
    names.push_back(detail::device_name("shard", name));
    if (std::ranges::count(names, names.back()) > 1)
      throw ValueError(fmt::format("shard: device {} is named twice", names.back()));
  }
  if (names.size() == 1) return to(names[0]);
  const UOp copied = quern::copy_to(uop(), UOp::make(Op::DEVICE, dtypes::void_, {}, names));
  if (!axis) return Tensor(copied);
  const int64_t at = detail::resolve_axis("shard", *axis, ndim());
  const int64_t n = detail::int_size("shard", *this, *axis), parts = std::ssize(names);
  if (n % parts != 0)
    throw ShapeError(fmt::format("shard: axis {} of {} cannot be divided evenly among {} devices", *axis,
                                 shape_text(shape()), parts));
  // Each device keeps the part that its number says; the number is known when the kernel of that device is
  // run.
  UOps offsets(copied.shape().size(), UOp::index(0)), sizes = copied.shape();
  offsets[static_cast<size_t>(at)] = device_number(parts) * (n / parts);
  sizes[static_cast<size_t>(at)] = UOp::index(n / parts);
  return Tensor(sharded(quern::shrink(copied, offsets, sizes), {at, parts}));
}

}  // namespace quern
