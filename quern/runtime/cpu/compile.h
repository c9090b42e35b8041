// Programs to machine code of the host, by LLVM.
#pragma once

#include <string>

#include "quern/ir/linear.h"
#include "quern/runtime/cpu/code.h"

namespace quern::cpu {

// no_alias: PARAMs are different memory. May be called from several threads.
Code compile(const LinearProgram& program, bool no_alias);

// What is known of the processor that this runs on.
struct Host {
  std::string name;
  std::string features;  // all that LLVM knows of: "+avx2,-avx512f,..."
  int64_t vector_bytes, vector_registers;
  bool converts_float16, has_fma;
};
const Host& host();

// What the code of a program depends on beside the program: processor, LLVM and the sources of quern.
const std::string& compiler_key();

// Assembly for another processor: "aarch64-linux-gnu", "generic". An Error if LLVM knows no such.
std::string assembly_for(const LinearProgram& program, const std::string& triple,
                         const std::string& processor);

// For DEBUG=4, and for the curious: LLVM IR as rendered.
std::string llvm_text(const LinearProgram& program, bool optimised);

}  // namespace quern::cpu
