#include "quern/codegen/loops.h"

#include <algorithm>
#include <unordered_map>

#include "quern/codegen/rebuild.h"
#include "quern/ir/rewrite.h"
#include "quern/ir/symbolic.h"

namespace quern {
namespace {

// ---- loops that are one

int64_t divisions_below(const UOp& u) {
  int64_t count = 0;
  walk(u, [&](const UOp& n) { count += n.op() == Op::FLOORDIV || n.op() == Op::FLOORMOD ? 1 : 0; });
  return count;
}

size_t first_closed(const UOp& u) {
  if (u.op() != Op::REDUCE || u.arg().reduce().op != Op::NOOP) return 1;
  return 2 * static_cast<size_t>(u.arg().reduce().states) + 1;
}

// Something computed in one of the loops and not in the other would be computed more often, or stand between
// them.
bool nothing_between(const UOp& u, const UOp& outer, const UOp& inner) {
  bool none = true;
  walk(u, [&](const UOp& n) {
    if (same(n, u) || (n.op() != Op::REDUCE && n.op() != Op::END && n.op() != Op::BARRIER)) return;
    const UOps& open = n.ranges();
    none &= (std::ranges::find(open, outer) != open.end()) == (std::ranges::find(open, inner) != open.end());
  });
  return none;
}

// The loop node with ranges i and i + 1 joined, or none.
UOp joined(const UOp& u, size_t i) {
  const UOp &outer = u.src(i), &inner = u.src(i + 1);
  if (outer.op() != Op::RANGE || inner.op() != Op::RANGE) return {};
  const RangeArg a = outer.arg().range(), b = inner.arg().range();
  if (a.kind != b.kind || a.id >= b.id || !outer.src(0).is_int_const() || !inner.src(0).is_int_const())
    return {};
  const wide steps = outer.src(0).int_value() * inner.src(0).int_value();
  if (!fits(dtypes::int32, steps) || !nothing_between(u, outer, inner)) return {};
  const UOp one = UOp::range(static_cast<int64_t>(steps), a.id, a.kind);
  const std::unordered_map<UOp, UOp> map{{outer, one / inner.src(0)}, {inner, one % inner.src(0)}};
  UOps sources;
  for (size_t k = 0; k < u.src().size(); k++) {
    if (k == i + 1) continue;
    if (k == i)
      sources.push_back(one);
    else
      sources.push_back(k < first_closed(u) ? graph_rewrite(u.src(k).substitute_open(map), symbolic)
                                            : u.src(k));
  }
  UOp result = u.with_src(sources);
  return divisions_below(result) <= divisions_below(u) ? result : UOp();
}

// How many loop nodes close each range.
using Closers = std::unordered_map<UOp, int>;
Closers closers_in(const UOp& program) {
  Closers count;
  walk(program, [&](const UOp& u) {
    if (u.op() != Op::END && u.op() != Op::REDUCE) return;
    for (const UOp& r : u.src().subspan(first_closed(u)))
      if (r.op() == Op::RANGE) count[r]++;
  });
  return count;
}

UOp with_loops_joined(const UOp& program) {
  const Closers closers = closers_in(program);
  for (const UOp& u : program.toposort()) {
    if (u.op() != Op::END && u.op() != Op::REDUCE) continue;
    for (size_t i = first_closed(u); i + 1 < u.src().size(); i++) {
      const auto alone = [&](const UOp& r) { return r.op() == Op::RANGE && closers.at(r) == 1; };
      if (!alone(u.src(i)) || !alone(u.src(i + 1))) continue;
      if (const UOp now = joined(u, i)) return program.substitute({{u, now}});
    }
  }
  return {};
}

// ---- kinds of loops

bool is_of_threads(const UOp& range) {
  const AxisKind kind = range.arg().range().kind;
  return kind == AxisKind::LOCAL || kind == AxisKind::WARP;
}

AxisKind kind_on(AxisKind kind, bool workgroups) {
  switch (kind) {
    case AxisKind::UPCAST: return AxisKind::LOOP;
    case AxisKind::UNROLL:
    case AxisKind::GROUP_REDUCE: return AxisKind::REDUCE;
    case AxisKind::GLOBAL:
    case AxisKind::LOCAL:
    case AxisKind::WARP: return workgroups ? kind : AxisKind::LOOP;
    default: return kind;
  }
}

bool writes_register(const UOp& effect) {
  bool found = false;
  walk(
      effect, [](const UOp& u) { return u.op() != Op::BARRIER; },
      [&](const UOp& u) {
        found |=
            u.op() == Op::STORE && u.src(0).dtype().is_ptr() && u.src(0).dtype().space() == AddrSpace::REG;
      });
  return found;
}

// Threads are steps of a loop: what they do before the barrier is a loop, and what follows is another.
UOp barrier_to_loop(const UOps& effects) {
  UOps closed{effects.size() == 1 ? effects[0] : UOp::make(Op::GROUP, dtypes::void_, effects)};
  for (const UOp& r : closed[0].ranges())
    if (is_of_threads(r)) closed.push_back(r);
  if (closed.size() > 1 && writes_register(closed[0]))
    throw Error("kernel: registers that are kept across a BARRIER need a device with workgroups");
  return closed.size() == 1 ? closed[0] : UOp::make(Op::END, dtypes::void_, closed);
}

}  // namespace

UOp simplify_loops(const UOp& program) {
  UOp result = program;
  while (UOp joined_once = with_loops_joined(result)) result = std::move(joined_once);
  return result;
}

UOp kinds_to_loops(const UOp& program, const DeviceSpec& spec) {
  const bool workgroups = spec.workgroup_threads > 1;
  UOp result = program;
  if (!workgroups && program.ops_below().contains(Op::BARRIER))
    result = rebuild(result, [](const UOp& u, const UOps& sources) -> UOp {
      return u.op() == Op::BARRIER && !sources.empty() ? barrier_to_loop(sources) : UOp();
    });
  return rebuild(result, [&](const UOp& u, const UOps& sources) -> UOp {
    if (u.op() != Op::RANGE) return {};
    const RangeArg arg = u.arg().range();
    return UOp::make(Op::RANGE, u.dtype(), sources, RangeArg{arg.id, kind_on(arg.kind, workgroups)});
  });
}

}  // namespace quern
