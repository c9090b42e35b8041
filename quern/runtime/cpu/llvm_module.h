// LLVM is a module of its own, libquern_llvm.so, that is loaded when something is compiled: to load it takes
// longer than to run a kernel that is kept on disk. What the two sides call of each other is in these tables.
// The module has no nodes of its own: it reads those of the core, through functions of the core.
#pragma once

#include <string>

#include "quern/ir/pass/linear_program.h"
#include "quern/runtime/cpu/code.h"
#include "quern/runtime/cpu/host.h"

namespace quern::cpu {

// Of the core, for the module: all that is not in headers, and knows of nodes or of the processor.
struct CoreFunctions {
  const char* version;  // kCodegenVersion: both must be of the same build
  void (*destroy)(detail::Node* node) noexcept;
  Bounds (*bounds)(const UOp& u);
  std::string (*text)(const LinearProgram& program);
  const UOp& (*storage_of)(const UOp& pointer);
  const UOp& (*index_of_address)(const UOp& address);
  std::unordered_map<UOp, UOps> (*rare_parts)(const LinearProgram& program);
  const Host& (*host)();
};

// Exceptions do not cross: the two may have C++ libraries of their own.
struct Outcome {
  enum class Kind { good, error, internal_error };
  Kind kind = Kind::good;
  std::string text;  // the result, or that of the exception
};

// Of the module, for the core: what compile.h and disassemble.h declare.
struct LlvmFunctions {
  Outcome (*compile)(const LinearProgram& program, bool no_alias, Code& code);
  Outcome (*assembly_for)(const LinearProgram& program, const std::string& triple,
                          const std::string& processor);
  Outcome (*llvm_text)(const LinearProgram& program, bool optimised);
  Outcome (*disassembly)(const Code& code);
};

// What the module exports; null if it is of another build than the core.
using OpenLlvm = const LlvmFunctions* (*)(const CoreFunctions* core);
inline constexpr const char* kOpenLlvm = "quern_open_llvm";

}  // namespace quern::cpu
