// A kernel as machine code, ready to run.
#pragma once

#include <mutex>
#include <optional>

#include "quern/runtime/cpu/code.h"
#include "quern/runtime/cpu/link.h"
#include "quern/runtime/device.h"

namespace quern::cpu {

// Without its object file.
struct CodeInMemory {
  Code code;
  Linked linked;
};

// From the disk, if it is there; else compiled, and kept for the next process.
class CpuProgram : public Program {
 public:
  explicit CpuProgram(ProgramSource source);
  void run(std::span<const Argument> arguments, const VariableValues& variables) const override;
  Texts opts() const override { return apart_.code.opts; }

  // What there is to call, for arguments that were checked before: memory of each PARAM by its slot, values
  // in the order of the code's variables. Good while the program lives.
  struct Callable {
    Function function;
    const Code* code;
    void run(void** memory, const int64_t* values) const;
  };
  Callable callable(bool overlapping) const;

 private:
  const CodeInMemory& for_overlaps() const;

  const ProgramSource source_;
  CodeInMemory apart_;  // for arguments that are different memory
  int64_t slots_ = 0;
  mutable std::mutex mutex_;
  mutable std::optional<CodeInMemory> overlapping_;
};

}  // namespace quern::cpu
