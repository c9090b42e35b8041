// Calls of functions. A FUNCTION is its body with the arguments in place of PARAMs. One that is marked
// precompile is kept: its body is a program of its own, scheduled once for all calls with that body, and a
// call of it is one step over memory.
//
//   FUNCTION(body, x; {name: "f"})                    ->  the body, with x in it
//   FUNCTION(body, x; {name: "f", precompile: true})  ->  AFTER(BUFFER, CALL(SINK, BUFFER, x))
#pragma once

#include "quern/ir/node/uop.h"

namespace quern {

struct WithoutFunctions {
  UOp sink;
  // What is called: a SINK of AFTERs over PARAMs, outputs first. The CALL holds an empty SINK with the
  // number of the body as its tag.
  UOps bodies;
};
WithoutFunctions resolve_functions(const UOp& sink);

// Memory that the body of a function names itself becomes an argument, so that a body is the same for
// everyone who calls it.
UOp with_closed_functions(const UOp& sink);

}  // namespace quern
