// Variables and constants that expressions of tests are made of.
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

inline UOp variable(const char* name, int64_t min = 0, int64_t max = 100) {
  return UOp::variable(name, min, max);
}

inline const UOp kN = variable("n", 0, 10), kM = variable("m", 0, 10);

// Constants of float32 and int32.
inline UOp floating(double value) { return UOp::constant(dtypes::float32, value); }
inline UOp whole(int value) { return UOp::constant(dtypes::int32, value); }

}  // namespace quern
