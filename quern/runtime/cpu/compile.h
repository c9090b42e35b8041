// Programs to machine code of the host, by LLVM: in the core, these load the module that has it
// (llvm_module.h). A DeviceError if it cannot be loaded.
#pragma once

#include <string>

#include "quern/ir/pass/linear_program.h"
#include "quern/runtime/cpu/code.h"

namespace quern::cpu {

// no_alias: PARAMs are different memory. May be called from several threads.
Code compile(const LinearProgram& program, bool no_alias);

// Assembly for another processor: "aarch64-linux-gnu", "generic". An Error if LLVM knows no such.
std::string assembly_for(const LinearProgram& program, const std::string& triple,
                         const std::string& processor);

// LLVM IR: as it is rendered (DEBUG=7 prints that), or as it is after LLVM's passes.
std::string llvm_text(const LinearProgram& program, bool optimised);

}  // namespace quern::cpu
