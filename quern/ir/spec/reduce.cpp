#include "quern/ir/spec/reduce.h"

#include "quern/ir/node/node_map.h"
#include "quern/ir/spec/predicates.h"

namespace quern::spec {

bool counts_states(const UOp& u) {
  const int64_t k = u.arg().reduce().states;
  if (u.arg().reduce().op != Op::NOOP) return k == 1;
  return k >= 1 && k < std::ssize(u.src()) && 2 * k + 1 <= std::ssize(u.src());
}

bool reduces_value(const UOp& u) {
  const Reduction r(u);
  if (r.has_several_values()) return u.dtype().is_void();
  const DType from = r.value().dtype(), to = u.dtype();
  return is_value(from) && same_scalar(from, to) && from.lanes() % to.lanes() == 0;
}

bool initial_values_fit(const UOp& u) {
  const Reduction r(u);
  for (size_t i = 0; i < r.initial.size(); i++)
    if (!has_value(r.values[i]) || !r.initial[i].is_const() || r.initial[i].dtype() != r.values[i].dtype())
      return false;
  return true;
}

bool body_fits(const UOp& u) {
  const Reduction r(u);
  if (!r.has_several_values()) return true;
  const size_t k = r.values.size();
  const UOp& body = *r.combine;
  if (body.op() != Op::TUPLE || body.src().size() != k) return false;
  bool fit = true;
  for (size_t i = 0; i < k; i++) fit &= body.src(i).dtype() == r.values[i].dtype();
  if (!(body.ops_below() - ops::elementwise - OpSet{Op::TUPLE, Op::STATE, Op::CONST}).empty()) return false;
  walk(body, [&](const UOp& n) {
    if (n.op() == Op::TUPLE) fit &= same(n, body);
    if (n.op() != Op::STATE) return;
    const auto i = static_cast<size_t>(n.arg().integer());
    fit &= i < 2 * k && n.dtype() == r.values[i % k].dtype();
  });
  return fit;
}

bool reduces_ranges(const UOp& u) {
  return all(closed_ranges(u), [](const UOp& r) {
    if (r.op() != Op::RANGE) return r.is_int_const();
    const AxisKind kind = r.arg().range().kind;
    return kind == AxisKind::REDUCE || kind == AxisKind::GROUP_REDUCE || kind == AxisKind::UNROLL;
  });
}

}  // namespace quern::spec
