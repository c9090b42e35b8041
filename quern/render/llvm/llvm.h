// Linear programs as LLVM IR.
#pragma once

#include <memory>
#include <string>

#include "quern/ir/pass/linear_program.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace quern {

// What a program is called with:
//   void f(void** memory, const int64_t* variables, void* scratch, int64_t thread, Poll* poll)
//
//   memory     a pointer for each PARAM, by its number
//   variables  the values of the DEFINE_VARs, in the order of `variables` below
//   scratch    memory for LOCAL and for large registers, aligned to 64 bytes, of its own for each thread
//   thread     the value of the RANGE of kind THREAD, if there is one
//   poll       begins with the address of a function of type int32_t(Poll*). A program that takes long
//              calls it every now and then, and returns at once when it gives anything but 0.
struct LlvmProgram {
  std::unique_ptr<llvm::Module> module;
  std::string function;  // its name in the module
  UOps params;           // PARAMs, in no order
  UOps variables;        // DEFINE_VARs
  int64_t scratch_bytes = 0;
  UOp threads;  // how many; none: one
};

struct LlvmOptions {
  // PARAMs are different memory: what is written through one is not read through another.
  bool no_alias = true;
  // The longest run of instructions without a jump: code generators take time that is quadratic in it. 0:
  // any.
  int64_t longest_block = 0;
  // What vectors are known to have, beside what LLVM knows to use: masks of whole lanes (of 32 or 64 bits,
  // vectors of 256), or masks of bits (any lanes, vectors of 512).
  enum class Vectors { PLAIN, AVX2, AVX512 };
  Vectors vectors = Vectors::PLAIN;
};

LlvmProgram render_llvm(const LinearProgram& program, llvm::LLVMContext& context, const LlvmOptions& options);

}  // namespace quern
