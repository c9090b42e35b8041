#include "quern/codegen/opt/pad.h"

#include <algorithm>

#include "quern/codegen/analysis/rebuild.h"
#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/eval.h"
#include "quern/ir/pass/linear_program.h"

namespace quern {

UOp pad(const UOp& program, const UOp& range, const UOp& padded) {
  const UOp& steps = range.src(0);
  const UOp inside = padded < steps;
  const UOp last = min(padded, steps - 1);
  NodeSet stored;
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::STORE) stored.insert(index_of_address(u.src(0)));
  });
  return rebuild(program, [&](const UOp& u, const UOps& sources) -> UOp {
    if (same(u, range)) return padded;
    if (u.op() == Op::INDEX && is_open(u, range)) {
      const UOp now = u.with_src(sources);
      const bool neighbours = stride_of(position_of(u), range) == 1;
      if (!stored.contains(u) && !has_gate(u) && !neighbours)
        return u.with_src(UOps{sources[0], sources[1].substitute_open({{padded, last}})});
      const UOp gate = has_gate(now) ? gate_of(now) & inside : inside;
      return u.with_src(UOps{sources[0], where(gate, position_of(now), UOp::invalid())});
    }
    const bool closes = std::ranges::find(u.src(), range) != u.src().end();
    if (u.op() == Op::REDUCE && closes) {
      UOps now = sources;
      const DType dtype = u.dtype();
      const UOp nothing = UOp::constant(dtype, identity_element(u.arg().reduce().op, dtype.scalar()));
      now[0] = where(inside, sources[0], nothing);
      return u.with_src(now);
    }
    return {};
  });
}

}  // namespace quern
