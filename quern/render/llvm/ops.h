// Elementwise ops as LLVM instructions, with the results that eval() defines.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "quern/ir/node/uop.h"
#include "quern/render/llvm/llvm.h"

namespace quern {

llvm::Type* llvm_type(llvm::LLVMContext& context, DType dtype);         // of a value: bool is i1
llvm::Type* llvm_memory_type(llvm::LLVMContext& context, DType dtype);  // in memory: bool is i8
llvm::Constant* llvm_constant(llvm::LLVMContext& context, DType dtype, Const value);

// `x` are the values of the op's sources.
llvm::Value* llvm_op(llvm::IRBuilder<>& build, const UOp& u, llvm::ArrayRef<llvm::Value*> x,
                     LlvmOptions::Vectors vectors);

}  // namespace quern
