// What a REDUCE is made of, by name. Its two forms are described with ReduceArg (arg.h).
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

// How many sources stand before the ranges that a REDUCE, END or STAGE closes.
inline size_t sources_before_ranges(const UOp& u) {
  if (u.op() != Op::REDUCE || u.arg().reduce().op != Op::NOOP) return 1;
  return 2 * static_cast<size_t>(u.arg().reduce().states) + 1;
}
inline Sources closed_ranges(const UOp& u) { return u.src().subspan(sources_before_ranges(u)); }
bool closes(const UOp& u, const UOp& range);  // is it one of these?

// Good for as long as the node, which has as many sources as it has to have.
struct Reduction {
  explicit Reduction(const UOp& reduce);

  bool has_several_values() const { return op == Op::NOOP; }
  const UOp& value() const { return values[0]; }  // of one that has one
  UOps identity() const;                          // constants that values are combined with first

  Op op;                         // combines one value; NOOP: `combine` does several
  Sources values;                // what is reduced
  Sources initial;               // what several values are combined with first
  const UOp* combine = nullptr;  // of several values: a TUPLE, written in STATEs
  Sources ranges;                // what it goes over; none over axes of a tensor
  DType dtype;                   // of the result of one value
};

}  // namespace quern
