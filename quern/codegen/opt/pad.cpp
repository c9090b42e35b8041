#include "quern/codegen/opt/pad.h"

#include <algorithm>

#include "quern/codegen/analysis/strides.h"
#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/pass/linear_program.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {

namespace {

struct Padding {
  UOp range, padded;
  UOp inside;           // is there something to do in this step?
  UOp last;             // or else the last step in which there is
  NodeSet stored = {};  // INDEXes of STOREs
};

UOp padded_range(const Padding& p, const UOp& u, Sources) { return same(u, p.range) ? p.padded : UOp(); }

UOp address_inside(const Padding& p, const UOp& u, Sources sources) {
  if (!is_open(u, p.range)) return {};
  const bool neighbours = stride_of(position_of(u), p.range) == 1;
  if (!p.stored.contains(u) && !has_gate(u) && !neighbours)
    return u.with_src(UOps{sources[0], sources[1].substitute_open({{p.padded, p.last}})});
  const UOp now = u.with_src(sources);
  const UOp gate = has_gate(now) ? gate_of(now) & p.inside : p.inside;
  return u.with_src(UOps{sources[0], where(gate, position_of(now), UOp::invalid())});
}

UOp reduce_inside(const Padding& p, const UOp& u, Sources sources) {
  if (!closes(u, p.range)) return {};
  UOps now(sources.begin(), sources.end());
  now[0] = where(p.inside, sources[0], Reduction(u).identity()[0]);
  return u.with_src(now);
}

const Rules padded_loop = [] {
  return RuleList{
      {op(Op::RANGE), padded_range, "a loop -> one of more steps"},
      {op(Op::INDEX), address_inside, "an address -> with a gate, or of the last step"},
      {op(Op::REDUCE), reduce_inside, "what is reduced -> what changes nothing in the new steps"},
  };
};

}  // namespace

UOp pad(const UOp& program, const UOp& range, const UOp& padded) {
  const UOp& steps = range.src(0);
  Padding padding{range, padded, padded < steps, min(padded, steps - 1)};
  walk(program, [&](const UOp& u) {
    if (u.op() == Op::STORE) padding.stored.insert(index_of_address(u.src(0)));
  });
  return graph_rewrite(program, padded_loop, padding, {.order = Order::once, .name = "pad a loop"});
}

}  // namespace quern
