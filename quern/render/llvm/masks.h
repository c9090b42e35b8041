// Accesses to some lanes of a vector, where the others may be no memory at all.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <unordered_map>

#include "quern/render/llvm/llvm.h"

namespace quern {

// Not LLVM's own masked accesses: on x86, LLVM 19 makes plain ones of some. So the instruction is named where
// the hardware has one. Elsewhere a vector is accessed together if all its lanes are, else one by one.
class MaskedLanes {
 public:
  using Mark = std::function<void(llvm::Instruction*)>;  // told of what accesses the memory

  MaskedLanes(llvm::IRBuilder<>& build, LlvmOptions::Vectors vectors) : build_(build), vectors_(vectors) {}

  llvm::Value* read(llvm::Value* from, llvm::Value* mask, llvm::Value* otherwise, const Mark& mark);
  void write(llvm::Value* to, llvm::Value* mask, llvm::Value* stored, const Mark& mark);

 private:
  llvm::Value* part(llvm::Value* vector, unsigned first, unsigned count);
  llvm::Value* lane_address(llvm::FixedVectorType* type, llvm::Value* from, unsigned lane);
  llvm::BasicBlock* new_block(const char* name);
  llvm::Value* on_stack(llvm::Type* vector);
  void copy(llvm::Value* mask, llvm::Type* lane_type, llvm::Value* from, llvm::Value* to);
  llvm::Value* read_apart(llvm::Value* from, llvm::Value* mask, llvm::Value* otherwise, const Mark& mark);
  void write_apart(llvm::Value* to, llvm::Value* mask, llvm::Value* stored, const Mark& mark);

  llvm::IRBuilder<>& build_;
  LlvmOptions::Vectors vectors_;
  std::unordered_map<llvm::Type*, llvm::Value*> places_;  // on the stack
};

}  // namespace quern
