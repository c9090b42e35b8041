// A graph of program level put in line: loops and gates become brackets, and a value stands in the outermost
// loop that the ranges it depends on allow, so that what does not change in a loop is computed before it.
#pragma once

#include "quern/ir/pass/linear_program.h"

namespace quern {

// `program` is a SINK in which every RANGE is closed by one END.
LinearProgram linearize(const UOp& program);

}  // namespace quern
