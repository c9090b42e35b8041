#include "quern/ir/spec/reduce.h"

#include "quern/ir/node/node_map.h"
#include "quern/ir/spec/predicates.h"

namespace quern::spec {

bool counts_states(const UOp& u) {
  const int64_t k = u.arg().reduce().states;
  if (!has_several_values(u)) return k == 1;
  return k >= 1 && k < std::ssize(u.src()) && 2 * k + 1 <= std::ssize(u.src());
}

Sources reduced_over(const UOp& u) { return u.src().subspan(has_several_values(u) ? 2 * states(u) + 1 : 1); }

bool reduces_value(const UOp& u) {
  if (has_several_values(u)) return u.dtype().is_void();
  const DType from = u.src(0).dtype(), to = u.dtype();
  return is_value(from) && same_scalar(from, to) && from.lanes() % to.lanes() == 0;
}

bool initial_values_fit(const UOp& u) {
  if (!has_several_values(u)) return true;
  const size_t k = states(u);
  for (size_t i = 0; i < k; i++)
    if (!has_value(u.src(i)) || !u.src(k + i).is_const() || u.src(k + i).dtype() != u.src(i).dtype())
      return false;
  return true;
}

bool body_fits(const UOp& u) {
  if (!has_several_values(u)) return true;
  const size_t k = states(u);
  const UOp& body = u.src(2 * k);
  if (body.op() != Op::TUPLE || body.src().size() != k) return false;
  bool fit = true;
  for (size_t i = 0; i < k; i++) fit &= body.src(i).dtype() == u.src(i).dtype();
  if (!(body.ops_below() - ops::elementwise - OpSet{Op::TUPLE, Op::STATE, Op::CONST}).empty()) return false;
  walk(body, [&](const UOp& n) {
    if (n.op() == Op::TUPLE) fit &= same(n, body);
    if (n.op() != Op::STATE) return;
    const auto i = static_cast<size_t>(n.arg().integer());
    fit &= i < 2 * k && n.dtype() == u.src(i % k).dtype();
  });
  return fit;
}

bool reduces_ranges(const UOp& u) {
  return all(reduced_over(u), [](const UOp& r) {
    if (r.op() != Op::RANGE) return r.is_int_const();
    const AxisKind kind = r.arg().range().kind;
    return kind == AxisKind::REDUCE || kind == AxisKind::GROUP_REDUCE || kind == AxisKind::UNROLL;
  });
}

}  // namespace quern::spec
