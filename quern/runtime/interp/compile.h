// From a kernel (kernel level, see spec.h) to code for the INTERP device.
//
// A kernel is a tree of loops. Every END, REDUCE and STAGE is a nest of loops over the ranges that it closes,
// and a node runs in the innermost of the loops around it whose range is open in it, once for each loop in
// which it is used: what does not depend on a loop runs before it. A BARRIER closes the ranges of the
// workgroup's threads, so that what stands before it has run for all of them.
#pragma once

#include "quern/ir/pass/linear_program.h"
#include "quern/runtime/interp/machine.h"

namespace quern::interp {

// An Error for a graph that is no kernel, or has an op that INTERP does not run.
Code compile(const UOp& kernel);

// A program that codegen has put in line: run as it stands (linear.cpp). Threads are steps of loops.
Code compile(const LinearProgram& program);

}  // namespace quern::interp
