// The rules of differentiation: for an op, how the gradient of a node becomes those of its sources.
#pragma once

#include "quern/ir/node/uop.h"
#include "quern/ir/shape/movement.h"

namespace quern {

// From a node and the gradient of its value to the gradient of one of its sources.
using ToSource = UOp (*)(const UOp& node, const UOp& gradient);

struct GradientRule {
  OpSet ops;
  ToSource to[3] = {};  // by source; none: no gradient flows there
};

// The rule of this op, or none: it is a leaf, has several values (gradient.cpp), or cannot be differentiated.
const GradientRule* gradient_rule(Op op);

// A gradient goes to sources that hold floats and that the rule names.
inline bool flows(const GradientRule& rule, const UOp& node, size_t source) {
  return source < std::size(rule.to) && rule.to[source] && node.src(source).dtype().is_float();
}

// Ops through which no gradient flows, although they have values: comparisons, new views of bits, what the
// user detached.
constexpr OpSet kGradientStops =
    ops::comparison | OpSet{Op::BITCAST, Op::DETACH, Op::BUFFER, Op::CONST, Op::IOTA, Op::PARAM};

// gradient_reduce.cpp: the gradient of what a REDUCE or an EXPAND is made from.
UOp reduce_to_source(const UOp& node, const UOp& gradient);
UOp expand_to_source(const UOp& node, const UOp& gradient);

// MULTI(part of x) with the parts of all devices being x itself: x, or none. Sharding changes where a value
// is, not the value, so the gradient goes to x as it is.
inline UOp unsharded(const UOp& multi) {
  const UOp& part = multi.src(0);
  const bool cut = part.op() == Op::SHRINK && part.ops_below().contains(Op::DEFINE_VAR);
  return cut && same_sizes(part.src(0).shape(), multi.shape()) ? part.src(0) : UOp();
}

// A constant with the dtype and shape of x.
inline UOp filled_like(const UOp& x, double value) {
  return full(x.shape(), UOp::constant(x.dtype(), value));
}

// gradient_store.cpp: `after` is AFTER(memory, effects).
//
// The STOREs and CALLs that write to the memory, in their order; what only has to happen before is left out.
UOps writes_to_memory(const UOp& after);
size_t argument_of_call(const UOp& after, const UOp& call);  // which of the CALL's arguments is the memory
bool overwrites_all(const UOp& after, const UOp& store);
// The gradient of the value that was stored: what the view of the STORE shows of the gradient.
UOp gradient_of_stored(const UOp& after, const UOp& store, const UOp& gradient);
// The gradient of what was there before: 0 where it was stored over.
UOp gradient_of_kept(const UOp& after, const UOp& store, const UOp& gradient);

}  // namespace quern
