#include "quern/engine/jit/jit_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/engine/realize/realize.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/schedule/facts/memory_view.h"

namespace quern {
namespace {

using detail::JitArguments;

int64_t identity_of(const UOp& buffer) { return buffer.src(0).arg().integer(); }
bool is_bound(const UOp& u) { return u.ops_below().contains(Op::BIND); }

void each_bind(const UOp& u, const auto& visit) {
  if (!is_bound(u)) return;
  walk(u, [&](const UOp& n) {
    if (n.op() == Op::BIND && n.src().size() == 2) visit(n);
  });
}

UOp without_values(const UOp& u) {
  std::unordered_map<UOp, UOp> map;
  each_bind(u, [&](const UOp& n) { map.emplace(n, UOp::make(Op::BIND, n.dtype(), {n.src(0)})); });
  return map.empty() ? u : u.substitute(map);
}

// A view of memory as a view of a PARAM: it holds no memory, and is the same for all.
UOp over_param(const UOp& u) {
  const UOp& buffer = memory_base(u);
  return u.substitute({{buffer, UOp::make(Op::PARAM, buffer.dtype(),
                                          {UOp::index(buffer.arg().integer()), buffer.src(1)}, 0)}});
}

// Whether `view` is over_param(u), without making it. The memory of u.
const UOp* memory_if_same_view(const UOp& u, const UOp& view) {
  const UOp *a = &u, *b = &view;
  for (; b->op() != Op::PARAM; a = &a->src(0), b = &b->src(0)) {
    const Sources x = a->src(), y = b->src();
    if (a->op() != b->op() || a->dtype() != b->dtype() || x.size() != y.size() || !(a->arg() == b->arg()))
      return nullptr;
    for (size_t i = 1; i < x.size(); i++)
      if (!same(x[i], y[i])) return nullptr;
  }
  const bool fits = a->op() == Op::BUFFER && a->dtype() == b->dtype() && same(a->src(1), b->src(1)) &&
                    b->src(0).equals(a->arg().integer());
  return fits ? a : nullptr;
}

bool in_memory(const UOp& u) { return memory_base(u).op() == Op::BUFFER; }

bool is_whole(const UOp& u) {
  return !is_bound(u) && base_of(u).op() == Op::BUFFER && u.device().size() == 1 && is_whole_memory(u);
}

// Bytes of one BUFFER, in order.
struct Stretch {
  UOp buffer;
  int64_t offset, bytes;
};
std::optional<Stretch> stretch(const UOp& u) {
  if (is_bound(u) || u.device().size() != 1) return {};
  const std::optional<MemoryView> view = contiguous_view(u);
  if (!view || view->memory.op() != Op::BUFFER || !view->offset.is_int_const()) return {};
  const int64_t element = u.dtype().bytes();
  return Stretch{view->memory, static_cast<int64_t>(view->offset.int_value()) * element,
                 static_cast<int64_t>(elements_in(u.shape()).int_value()) * element};
}

// Views at an offset, which is another in each call: the function is captured on what they show.
bool is_part(const UOp& u) {
  if (is_bound(u) || u.device().size() != 1) return false;
  const UOp* at = &u;
  while (is_movement(at->op()) && at->op() != Op::SHRINK && at->op() != Op::PAD) at = &at->src(0);
  return at->op() != Op::BUFFER;
}

[[noreturn]] void passed_twice(size_t a, size_t b) {
  throw Error(
      fmt::format("jit: inputs {} and {} are the same memory: the function could not tell them apart; "
                  "clone() one of them",
                  a, b));
}

[[noreturn]] void written_out_of_order(size_t i) {
  throw Error(fmt::format(
      "jit: input {} is written by the function; a view whose elements are not in order cannot be", i));
}

}  // namespace

std::vector<bool> JitInputs::prepare(const JitArguments& given) {
  std::vector<bool> copied(given.tensors.size());
  UOps lazy;
  for (const auto& t : given.tensors) lazy.push_back(t->uop());
  realize(lazy);
  std::vector<Stretch> seen;
  for (size_t i = 0; i < given.tensors.size(); i++) {
    const UOp u = given.tensors[i]->uop(), &buffer = memory_base(u);
    const bool direct = in_memory(u) && !is_part(u);
    const std::optional<Stretch> part = direct ? std::nullopt : stretch(u);
    if (direct || part) {
      seen.push_back(part ? *part : Stretch{buffer, 0, buffer.arg().integer() * buffer.dtype().bytes()});
      for (size_t k = 0; k + 1 < seen.size(); k++) {
        const Stretch &a = seen[k], &b = seen.back();
        if (a.buffer && same(a.buffer, b.buffer) && a.offset < b.offset + b.bytes &&
            b.offset < a.offset + a.bytes)
          passed_twice(k, i);
      }
    } else {
      seen.push_back({{}, 0, 0});
    }
    if (direct) continue;
    if (!part) {
      *given.tensors[i] = Tensor(realize_copy(quern::contiguous(u)));
      copied[i] = true;
      continue;
    }
    const int64_t elements = part->bytes / u.dtype().bytes();
    const UOp memory = new_buffer(u.dtype(), elements, part->buffer.src(1));
    set_buffer(memory, std::make_shared<Buffer>(buffer_of(part->buffer), u.dtype(), elements, part->offset));
    *given.tensors[i] = Tensor(reshape(memory, u.shape()));
  }
  return copied;
}

JitInputs::JitInputs(const JitArguments& prepared, const std::vector<bool>& copied) {
  for (size_t i = 0; i < prepared.tensors.size(); i++) {
    const UOp u = prepared.tensors[i]->uop(), view = over_param(u);
    buffers_.push_back(memory_base(u));
    inputs_.push_back({view, without_values(view), is_whole(u), copied[i]});
    each_bind(view, [&](const UOp& n) { captured_binds_.emplace(n.src(0).arg().variable().name, n); });
  }
  for (const auto& d : prepared.dims) {
    dims_.push_back(d->uop());
    stripped_dims_.push_back(without_values(d->uop()));
    each_bind(d->uop(), [&](const UOp& n) { captured_binds_.emplace(n.src(0).arg().variable().name, n); });
  }
  lengths_.assign(prepared.lengths.begin(), prepared.lengths.end());
  for (const detail::JitValue& v : prepared.values) {
    values_.push_back(v.copied(v.value));
    texts_.push_back(v.text(v.value));
  }
  collect_variables();
}

void JitInputs::recorded(const Recording& recording) {
  const std::unordered_set<UOp> mine(buffers_.begin(), buffers_.end());
  for (size_t i = 0; i < inputs_.size(); i++) {
    inputs_[i].written = recording.written().contains(buffers_[i]);
    if (inputs_[i].written && inputs_[i].copied) written_out_of_order(i);
    writes_ = writes_ || inputs_[i].written;
  }
  for (const Recording::Ran& ran : recording.ran())
    for (const UOp& buffer : ran.memory)
      if (!mine.contains(buffer) && !recording.made(buffer)) {
        used_outside_.insert(identity_of(buffer));
        if (recording.written().contains(buffer)) written_outside_.insert(identity_of(buffer));
      }
}

void JitInputs::collect_variables() {
  variables_.clear();
  auto add = [&](const UOp& n) {
    const auto [variable, value] = n.unbind();
    const auto [known, added] = variables_.emplace(variable.arg().variable().name, value);
    if (known->second != value)
      throw Error(fmt::format("jit: variable {} is {} in one argument and {} in another", known->first,
                              known->second, value));
  };
  for (const Input& in : inputs_) each_bind(in.view, add);
  for (const UOp& d : dims_) each_bind(d, add);
}

std::unordered_map<UOp, UOp> JitInputs::bindings() const {
  std::unordered_map<UOp, UOp> map;
  for (const auto& [name, captured] : captured_binds_)
    map.emplace(captured, captured.src(0).bind(variables_.at(name)));
  return map;
}

UOp JitInputs::flat(size_t input, const UOp& given) const {
  if (!inputs_[input].contiguous) return memory_base(given);
  return reshape(given, buffers_[input].shape());
}

void JitInputs::forget_memory(const std::unordered_map<UOp, UOp>& stands_for) {
  for (UOp& buffer : buffers_) buffer = stands_for.at(buffer);
}

// ---- in a replay

bool JitInputs::read(const JitArguments& given, Replay& replay) {
  if (given.tensors.size() != inputs_.size() || given.dims.size() != dims_.size() ||
      !std::ranges::equal(given.lengths, lengths_) || given.values.size() != values_.size())
    throw Error(
        fmt::format("jit: {} tensors, {} sizes and {} other values are given (with their lists), the "
                    "function was captured with {}, {} and {}",
                    given.tensors.size(), given.dims.size(), given.values.size(), inputs_.size(),
                    dims_.size(), values_.size()));
  for (size_t i = 0; i < values_.size(); i++)
    if (const detail::JitValue& v = given.values[i]; !v.equals(v.value, values_[i]))
      throw Error(
          fmt::format("jit: value {} among the arguments is {}, it was {} when the function was captured", i,
                      v.text(v.value), texts_[i]));
  copies_.clear();
  bool changed = unsettled_, rebound = unsettled_;
  unsettled_ = true;
  for (size_t i = 0; i < dims_.size(); i++) {
    const UOp& size = given.dims[i]->uop();
    if (same(size, dims_[i])) continue;
    if (!same(without_values(size), stripped_dims_[i]))
      throw ShapeError(fmt::format(
          "jit: size {} among the arguments is {}, it was {} when the function was captured; bind a "
          "Variable for a size that changes",
          i, given.dims[i]->text(), Dim(dims_[i]).text()));
    dims_[i] = size, rebound = true;
  }
  for (size_t i = 0; i < inputs_.size(); i++) {
    const UOp u = given.tensors[i]->uop();
    Input& in = inputs_[i];
    const UOp* const memory = memory_if_same_view(u, in.view);
    if (memory != nullptr && in.begin == 0 && identity_of(*memory) == in.identity) {
      if (in.external) (void)buffer_of(*memory)->memory();  // which may be lost by now
      continue;
    }
    const UOp before = in.view;
    read_slowly(i, *given.tensors[i], replay);
    changed = true;
    rebound = rebound || !same(before, in.view);
  }
  if (changed) check_apart();
  if (rebound) {
    collect_variables();
    replay.bind(variables_);
  }
  unsettled_ = false;
  return changed || rebound;
}

void JitInputs::read_slowly(size_t i, const Tensor& given, Replay& replay) {
  Input& in = inputs_[i];
  if (!in_memory(given.uop())) realize({given.uop()});
  UOp u = given.uop();
  if (!in_memory(u)) {
    u = realize_copy(quern::contiguous(u));
    copies_.push_back(u);
  }
  const UOp* memory = memory_if_same_view(u, in.view);
  const std::span<void*> addresses = replay.memory_of(i);
  in.identity = -1, in.begin = 0;
  if (memory == nullptr) {
    if (u.dtype() != in.view.dtype())
      throw DTypeError(fmt::format("jit: input {} is {}, it was {} when the function was captured", i,
                                   u.dtype().name(), in.view.dtype().name()));
    if (u.device() != in.view.device())
      throw DeviceError(fmt::format("jit: input {} is on {}, it was on {} when the function was captured", i,
                                    fmt::join(u.device(), "+"), fmt::join(in.view.device(), "+")));
    const UOp view = over_param(u), stripped = without_values(view);
    if (!same_sizes(stripped.shape(), in.stripped.shape()))
      throw ShapeError(fmt::format("jit: input {} has shape {}, it was {} when the function was captured", i,
                                   shape_text(u.shape()), shape_text(in.view.shape())));
    if (!in.contiguous) {
      if (!same(stripped, in.stripped))
        throw Error(
            fmt::format("jit: input {} is another kind of view than when the function was captured; "
                        "contiguous() makes them alike",
                        i));
      in.view = view;
    } else if (const std::optional<Stretch> part = stretch(u)) {
      const BufferPtr buffer = buffer_of(part->buffer);
      in.identity = identity_of(part->buffer), in.begin = part->offset, in.bytes = part->bytes;
      in.external = buffer->is_external();
      void* const start = buffer->memory();
      addresses[0] = start == nullptr ? nullptr : static_cast<std::byte*>(start) + part->offset;
      return;
    } else {
      if (in.written) written_out_of_order(i);
      copies_.push_back(realize_copy(quern::contiguous(u)));
      addresses[0] = buffer_of(base_of(copies_.back()))->memory();
      in.bytes = 0, in.external = false;
      return;
    }
  }
  const UOp& buffer = memory_base(u);
  in.external = false;
  for (size_t d = 0; d < addresses.size(); d++) {
    const BufferPtr at = buffer_of(buffer, d);
    addresses[d] = at->memory();
    in.external = in.external || at->is_external();
  }
  in.identity = identity_of(buffer), in.bytes = buffer.arg().integer() * buffer.dtype().bytes();
}

// Memory of one input is that of no other, and not what the function writes or uses while it is written.
void JitInputs::check_apart() {
  std::vector<size_t> order;
  apart_ = true;
  for (size_t i = 0; i < inputs_.size(); i++) {
    const Input& in = inputs_[i];
    apart_ = apart_ && !in.external;
    if (in.identity < 0) continue;
    if (written_outside_.contains(in.identity) || (in.written && used_outside_.contains(in.identity)))
      throw Error(
          fmt::format("jit: input {} is memory that the function also uses by itself, and it is written: "
                      "clone() it",
                      i));
    order.push_back(i);
  }
  auto key = [&](size_t i) { return std::pair(inputs_[i].identity, inputs_[i].begin); };
  std::ranges::sort(order, {}, key);
  for (size_t k = 1; k < order.size(); k++) {
    const Input &a = inputs_[order[k - 1]], &b = inputs_[order[k]];
    if (a.identity == b.identity && b.begin < a.begin + a.bytes)
      passed_twice(std::min(order[k - 1], order[k]), std::max(order[k - 1], order[k]));
  }
}

}  // namespace quern
