// Calls of functions. A FUNCTION is its body with the arguments in place of PARAMs. One that is marked
// precompile is kept: its body is a program of its own, scheduled once for all calls with that body, and a
// call of it is one step over memory.
//
// Pass "functions":
//   %x = PARAM(4, DEVICE(["CPU"]); 0):float32
//   %y = PARAM(4, DEVICE(["CPU"]); 1):float32
//   SINK(AFTER(%y, STORE(%y, FUNCTION(%x * %x, %x; {name: "square"}) + %x)))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(4, %0; 1):float32
//   %2 = PARAM(4, %0; 0):float32
//   SINK(AFTER(%1, STORE(%1, %2 * %2 + %2)))
//
// Pass "functions":
//   %x = PARAM(4, DEVICE(["CPU"]); 0):float32
//   %y = PARAM(4, DEVICE(["CPU"]); 1):float32
//   SINK(AFTER(%y, STORE(%y, FUNCTION(%x * %x, %x; {name: "square", precompile: true}) + %x)))
//   ->
//   %0 = DEVICE(["CPU"])
//   %1 = PARAM(4, %0; 1):float32
//   %2 = BUFFER(LUNIQUE(0), %0; 4):float32
//   %3 = PARAM(4, %0; 0):float32
//   SINK(AFTER(%1, STORE(%1, AFTER(%2, CALL(SINK(; {name: "square"})@{body: 0}, %2, %3)) + %3)))
#pragma once

#include "quern/ir/rules/rules.h"

namespace quern {

struct WithoutFunctions {
  UOp sink;
  // What is called: a SINK of AFTERs over PARAMs, outputs first. The CALL holds an empty SINK with the
  // number of the body as a hint.
  UOps bodies;
};
extern const Rules resolved_functions;
WithoutFunctions resolve_functions(const UOp& sink);

// Memory that the body of a function names itself becomes an argument, so that a body is the same for
// everyone who calls it.
UOp with_closed_functions(const UOp& sink);

}  // namespace quern
