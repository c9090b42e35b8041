// A kernel that the INTERP device can run.
#pragma once

#include "quern/ir/pass/linear_program.h"
#include "quern/runtime/device.h"
#include "quern/runtime/interp/machine.h"

namespace quern::interp {

class InterpProgram : public Program {
 public:
  explicit InterpProgram(const UOp& kernel);
  explicit InterpProgram(const LinearProgram& program);
  void run(std::span<const Argument> arguments, const VariableValues& variables) const override;

 private:
  Code code_;
};

}  // namespace quern::interp
