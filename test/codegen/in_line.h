// Kernels in IR text, lowered and run in line on INTERP.
#pragma once

#include <string>
#include <vector>

#include "quern/codegen/linearize/linearize.h"
#include "quern/codegen/lower.h"
#include "quern/ir/spec/spec.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/interp/program.h"

namespace quern {

// No lanes, no narrow floats, nothing that runs in parallel.
inline DeviceSpec plain() {
  DeviceSpec spec;
  spec.has_fp8 = spec.has_bfloat16 = spec.has_float16 = false;
  return spec;
}

template <class... Arrays>
LinearProgram run_in_line(const UOp& kernel, const VariableValues& variables, Arrays&... arrays) {
  const std::vector<Argument> arguments = {
      Argument{arrays.data(), static_cast<int64_t>(arrays.size() * sizeof(arrays[0]))}...};
  const UOp graph = lower_to_program(kernel, plain());
  check(graph, Level::program, "lower");
  const LinearProgram program = linearize(graph);
  check(program);
  interp::InterpProgram(program).run(arguments, variables);
  return program;
}
template <class... Arrays>
LinearProgram run_in_line(const std::string& kernel, Arrays&... arrays) {
  return run_in_line(parse(kernel), {}, arrays...);
}

}  // namespace quern
