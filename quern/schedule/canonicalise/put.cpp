#include "quern/schedule/canonicalise/put.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/node/node_map.h"
#include "quern/ir/rewrite/rewrite.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/places.h"
#include "quern/schedule/facts/device_parts.h"
#include "quern/schedule/facts/memory_view.h"

namespace quern {
namespace {

// ---- the kernel

constexpr int64_t kLine = 64;              // bytes
constexpr int64_t kStepsOfThread = 16384;  // values that are put in the time in which threads are woken

// The source and the indices are memory or constants; x is argument 0.
class PutKernel {
 public:
  PutKernel(const PlacesForm& form, DType x, const UOp& index, const UOp& source, const DeviceSpec& spec)
      : form_(form), dtype_(x), spec_(spec) {
    memory_ = param(x, form.outer * form.places * form.inner);
    index_ = operand(index);
    source_ = operand(source);
  }

  UOp sink() {
    open_loops();
    const UOp place =
        read(index_, position(form_.one_outer_of_index, false, form_.one_inner_of_index)).cast(dtypes::index);
    const bool is_unsigned = index_.dtype().base().is_unsigned();  // those from 2^63 on are nowhere
    const UOp counted = is_unsigned ? place : where(place < 0, place + form_.places, place);
    const UOp is_there = (counted >= 0) & (counted < form_.places);
    // Without a branch: what is out of range writes back what is in the first place.
    const UOp at = where(is_there, counted, UOp::index(0));
    const UOp to = (outer_ * form_.places + at) * form_.inner + inner_;
    const UOp old = UOp::make(Op::INDEX, dtype_, {memory_, to});
    const UOp value =
        read(source_, position(form_.one_outer_of_source, form_.one_of_source, form_.one_inner_of_source))
            .cast(dtype_);
    const UOp combined = form_.op == Op::NOOP ? value : UOp::alu(form_.op, {old, value});
    const UOp address = UOp::make(Op::INDEX, memory_.dtype(), {memory_, to});
    UOps sources{UOp::make(Op::STORE, dtypes::void_, {address, where(is_there, combined, old)})};
    sources.insert(sources.end(), loops_.begin(), loops_.end());
    const UOp effect = loops_.empty() ? sources[0] : UOp::make(Op::END, dtypes::void_, sources);
    const std::string name =
        fmt::format("put_{}_{}_{}_{}", form_.outer, form_.count, form_.inner, form_.places);
    return UOp::make(Op::SINK, dtypes::void_, {effect}, KernelArg{.name = name, .opts = {}},
                     Hints{.steps_do_not_meet = true});
  }

 private:
  UOp param(DType dtype, int64_t elements) {
    return UOp::make(Op::PARAM, dtype.ptr(elements), {}, params_++);
  }
  UOp operand(const UOp& x) {
    if (base_of(x).is_const()) return UOp::constant(x.dtype(), base_of(x).value());
    return param(x.dtype(), static_cast<int64_t>(elements_in(x.shape()).int_value()));
  }
  static UOp read(const UOp& operand, const UOp& position) {
    if (operand.is_const()) return operand;
    return UOp::make(Op::INDEX, operand.dtype().base(), {operand, position});
  }

  UOp loop(int64_t steps, AxisKind kind) {
    if (steps == 1) return UOp::index(0);
    loops_.push_back(UOp::range(steps, std::ssize(loops_), kind));
    return loops_.back();
  }

  // Whatever is outside or inside of the places may be done by different threads.
  void open_loops() {
    if (spec_.has_workgroups()) {
      outer_ = loop(form_.outer, AxisKind::GLOBAL);
      const int64_t together = divisor(form_.inner, std::min<int64_t>(64, spec_.parallel.workgroup));
      const UOp group = loop(form_.inner / together, AxisKind::GLOBAL);
      inner_ = group * together + loop(together, AxisKind::LOCAL);
      count_ = loop(form_.count, AxisKind::LOOP);
      return;
    }
    const int64_t steps = form_.outer * form_.count * form_.inner;
    const int64_t wanted = std::min(spec_.parallel.cores, steps / kStepsOfThread);
    // Threads that share a row have whole lines of the cache each.
    const int64_t lines = form_.inner * dtype_.bytes() / kLine;
    const int64_t by_outer = divisor(form_.outer, wanted),
                  by_inner = divisor(form_.inner, std::min(wanted, lines));
    const bool outside = by_outer >= by_inner;
    const int64_t threads = std::max<int64_t>(1, outside ? by_outer : by_inner);
    const UOp thread = loop(threads, AxisKind::THREAD);
    const int64_t outer = outside ? form_.outer / threads : form_.outer,
                  inner = outside ? form_.inner : form_.inner / threads;
    outer_ = loop(outer, AxisKind::LOOP);
    count_ = loop(form_.count, AxisKind::LOOP);
    inner_ = loop(inner, AxisKind::LOOP);
    if (outside)
      outer_ = thread * outer + outer_;
    else
      inner_ = thread * inner + inner_;
  }
  static int64_t divisor(int64_t n, int64_t most) {  // the greatest
    int64_t d = std::max<int64_t>(1, std::min(n, most));
    while (n % d != 0) d--;
    return d;
  }

  UOp position(bool one_outer, bool one, bool one_inner) const {
    UOp p = one_outer ? UOp::index(0) : outer_;
    if (!one) p = p * form_.count + count_;
    if (!one_inner) p = p * form_.inner + inner_;
    return p;
  }

  const PlacesForm& form_;
  const DType dtype_;
  const DeviceSpec& spec_;
  int64_t params_ = 0;
  UOp memory_, index_, source_, outer_, count_, inner_;
  UOps loops_;
};

// ---- where it is used

struct Puts {
  const SpecOf& spec_of;
  int64_t next_identity = 0;
};

// The TUPLE of a value that is put, seen through reshapes; none for others.
UOp tuple_of(const UOp& value) {
  const UOp& get = under_reshapes(value);
  return get.op() == Op::GETTUPLE && is_put(get.src(0)) ? get.src(0) : UOp();
}

// The one device of all; none if they are on none, or on several.
UOp device_of(const UOp& tuple) {
  Texts device;
  for (const UOp& u : tuple.src().subspan(1)) {
    const Texts its = u.device();
    if (its.empty()) continue;
    if (its.size() != 1 || (!device.empty() && device != its)) return {};
    device = its;
  }
  return device.empty() ? UOp() : device_node(device[0]);
}

bool reads_as_it_lies(const UOp& x, const UOp& memory) {
  const UOp* u = &x;
  constexpr OpSet kSeen =
      ops::movement |
      OpSet{Op::CONTIGUOUS, Op::CONTIGUOUS_BACKWARD, Op::DETACH, Op::NOOP, Op::BITCAST, Op::AFTER};
  while (kSeen.contains(u->op()) && !u->src().empty()) u = &u->src(0);
  return same(*u, memory_under(memory));
}

UOp stored(Puts& puts, const UOp& value, const UOp& device) {
  const auto elements = static_cast<int64_t>(elements_in(value.shape()).int_value());
  const UOp memory = own_memory(value.dtype(), elements, device, puts.next_identity++);
  return after(memory, UOps{store(reshape(memory, value.shape()), value)});
}

UOp called(Puts& puts, const UOp& tuple, const UOp& memory, const UOp& device) {
  const UOp &index = tuple.src(2), &source = tuple.src(3);
  const DeviceSpec& spec = puts.spec_of(device.arg().texts()[0]);
  UOps sources{PutKernel(places_form(tuple), memory.dtype(), index, source, spec).sink(), memory};
  for (const UOp& u : {index, source})
    if (!base_of(u).is_const()) sources.push_back(u.device().empty() ? stored(puts, u, device) : u);
  return UOp::make(Op::CALL, dtypes::void_, sources);
}

UOp put_in_place(Puts& puts, const UOp& target, const UOp& value) {
  const UOp tuple = tuple_of(value);
  if (!tuple || !same(under_reshapes(tuple.src(1)), under_reshapes(target))) return {};
  const UOp& memory = under_reshapes(target);
  const UOp device = device_of(tuple);
  if (!device || is_movement(memory.op()) || !is_whole_memory(target)) return {};
  // What lies in this memory is read while it is written: then it is put into a copy.
  if (reads_as_it_lies(tuple.src(2), memory) || reads_as_it_lies(tuple.src(3), memory)) return {};
  return called(puts, tuple, memory, device);
}

bool is_used_in(const UOp& memory, const UOp& u) {
  bool found = false;
  walk(u, [&](const UOp& node) { found |= same(node, memory); });
  return found;
}

// Memory that nothing else is in is where it is put.
UOp put_into_memory(Puts& puts, const UOp& after) {
  if (after.src().size() != 2 || after.src(1).op() != Op::STORE) return {};
  const UOp &memory = after.src(0), &target = after.src(1).src(0), &value = after.src(1).src(1);
  const UOp tuple = tuple_of(value);
  if (!tuple || places_form(tuple).count == 1 || (memory.op() != Op::BUFFER && memory.op() != Op::PARAM) ||
      !same(under_reshapes(target), memory) || !is_whole_memory(target) || is_used_in(memory, tuple))
    return {};
  const UOp device = device_of(tuple);
  if (!device || memory.device() != device.arg().texts()) return {};
  const UOp x = quern::after(memory, UOps{store(reshape(memory, tuple.src(1).shape()), tuple.src(1))});
  return quern::after(x, UOps{called(puts, tuple, x, device)});
}

UOp put_in_own_memory(Puts& puts, const UOp& get, const UOp& tuple) {
  if (!is_put(tuple)) return {};
  const UOp device = device_of(tuple);
  if (!device || places_form(tuple).count == 1) return tuple.src(0);
  const UOp memory = stored(puts, tuple.src(1), device);
  return reshape(after(memory, UOps{called(puts, tuple, memory, device)}), get.shape());
}

UOp written_out(const UOp&, const UOp& tuple) { return is_put(tuple) ? tuple.src(0) : UOp(); }

const Pat put() { return op(Op::GETTUPLE, {op(Op::TUPLE).as("tuple")}).as("get"); }

const Rules as_sums = [] {
  return RuleList{{put(), written_out, "values that are put -> sums over places"}};
};

}  // namespace

// Memory before stores, and stores before what they store.
const Rules puts_by_kernels = [] {
  return RuleList{
      {op(Op::AFTER).as("after"), put_into_memory,
       "memory after a store of values that are put -> memory after a kernel that puts them"},
      {op(Op::STORE, {var("target"), var("value")}), put_in_place,
       "values put where they are stored -> a kernel that puts them"},
      {put(), put_in_own_memory, "values that are put -> memory after a kernel that puts them"},
  };
};
UOp put_by_kernels(const UOp& sink, const SpecOf& spec_of) {
  if (!sink.ops_below().contains(Op::TUPLE)) return sink;
  bool several_devices = false;
  walk(sink, [&](const UOp& u) { several_devices |= u.op() == Op::DEVICE && u.arg().texts().size() > 1; });
  if (several_devices) return graph_rewrite(sink, as_sums, {.name = "puts"});
  Puts puts{spec_of, next_identity(sink)};
  return graph_rewrite(sink, puts_by_kernels, puts, {.order = Order::before_sources, .name = "puts"});
}

}  // namespace quern
