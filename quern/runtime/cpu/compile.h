// Programs to machine code of the host, by LLVM, in this process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quern/ir/linear.h"

namespace quern::cpu {

using Function = void (*)(void** memory, const int64_t* variables, void* scratch, int64_t thread);

// Code that can be called for as long as `code` lives. See render/llvm.h for what it is called with.
struct Compiled {
  Function function = nullptr;
  std::shared_ptr<void> code;
  UOps params, variables;
  int64_t scratch_bytes = 0;
  int64_t threads = 1;
};

// no_alias: PARAMs are different memory. May be called from several threads.
Compiled compile(const LinearProgram& program, bool no_alias);

// What is known of the processor that this runs on.
struct Host {
  std::string name;
  int64_t vector_bytes, vector_registers;
  bool converts_float16, has_fma;
};
const Host& host();

// For DEBUG=4 and 7, and for the curious: LLVM IR as rendered, and the assembly it becomes.
std::string llvm_text(const LinearProgram& program, bool optimised);
std::string assembly(const LinearProgram& program);

}  // namespace quern::cpu
