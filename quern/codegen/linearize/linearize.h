// A graph of program level put in line: loops and gates become brackets. Each value stands directly in the
// deepest of the loops that it depends on, and in no other loop, so what does not change in a loop is
// computed before it.
#pragma once

#include "quern/ir/pass/linear_program.h"

namespace quern {

// `program` is a SINK in which every RANGE is closed by one END.
LinearProgram linearize(const UOp& program);

}  // namespace quern
