#include "quern/schedule/facts/device_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "quern/base/error.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/ir/shape/sharding.h"
#include "quern/schedule/facts/facts.h"
#include "quern/schedule/facts/memory_view.h"

namespace quern {

int64_t next_identity(const UOp& sink) {
  int64_t next = 0;
  if (sink.ops_below().contains(Op::LUNIQUE))
    walk(sink, [&](const UOp& u) {
      if (u.op() == Op::LUNIQUE) next = std::max(next, u.arg().integer() + 1);
    });
  return next;
}

bool is_everywhere(const UOp& x) { return !x.ops_below().contains(Op::DEVICE); }

UOp for_other_devices(const UOp& x) {
  if (is_everywhere(x) || base_of(x).is_const() || contiguous_view(x)) return x;
  return contiguous(x).with_hint(&Hints::reason, "another device needs it");
}

UOp select_device(const UOp& x, int64_t device) {
  if (is_everywhere(x)) {
    std::unordered_map<UOp, UOp> number;
    for (const UOp& v : x.variables())
      if (v.arg().variable().name == kDeviceNumber) number.emplace(v, UOp::index(device));
    return number.empty() ? x : x.substitute(number);
  }
  std::vector<const UOp*> views;
  const UOp* base = &x;
  for (; is_movement(base->op()); base = &base->src(0)) views.push_back(base);
  UOp result;
  if (base->is_const())
    result = *base;
  else if (base->op() == Op::MSTACK)
    result = base->src(static_cast<size_t>(device));
  else if (base->op() == Op::COPY)  // to several devices, from one
    result = copy_to(base->src(0), device_node(base->src(1).arg().texts()[static_cast<size_t>(device)]));
  else
    result =
        UOp::make(Op::MSELECT, base->dtype(), {has_memory(*base) ? *base : for_other_devices(*base)}, device);
  for (size_t i = views.size(); i-- > 0;) {
    UOps sources{result};
    for (const UOp& s : views[i]->src().subspan(1)) sources.push_back(on_device(s, device));
    result = views[i]->with_src(sources);
  }
  return result;
}

UOp stored_over(const UOp& u) {
  UOp value = u.src(1), here = full(value.shape(), UOp::boolean(true));
  auto back = [](const UOp& view, const UOp& x) {
    const UOps& from = view.src(0).shape();
    switch (view.op()) {
      case Op::RESHAPE: return reshape(x, from);
      case Op::FLIP: return flip(x, view.arg().ints());
      case Op::SHRINK: return pad(x, view.src().subspan(1, from.size()), from);
      case Op::PERMUTE: {
        const Ints& order = view.arg().ints();
        Ints inverse(order.size());
        for (size_t i = 0; i < order.size(); i++)
          inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
        return permute(x, inverse);
      }
      default:
        throw DeviceError(fmt::format("assign: a store through {} of a sharded tensor", name(view.op())));
    }
  };
  const UOp* view = &u.src(0);
  for (; is_movement(view->op()); view = &view->src(0)) value = back(*view, value), here = back(*view, here);
  return store(*view, where(here, value, *view));
}

UOp own_memory(DType dtype, int64_t elements, const UOp& devices, int64_t identity) {
  return UOp::make(Op::BUFFER, dtype, {UOp::make(Op::LUNIQUE, dtypes::void_, {}, identity), devices},
                   elements);
}

}  // namespace quern
