// What the spec says of a REDUCE: of one value by an op, or of several values by a body. With several values,
// its sources are k values, k initial values, the body, and what it goes over.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern::spec {

inline bool has_several_values(const UOp& reduce) { return reduce.arg().reduce().op == Op::NOOP; }
inline size_t states(const UOp& reduce) { return static_cast<size_t>(reduce.arg().reduce().states); }
Sources reduced_over(const UOp& u);  // the sources that stand behind its values

bool counts_states(const UOp& u);
bool reduces_value(const UOp& u);
bool initial_values_fit(const UOp& u);
bool body_fits(const UOp& u);
bool reduces_ranges(const UOp& u);

}  // namespace quern::spec
