// What AVX-512 has instructions for that LLVM does not use by itself.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace quern {

// The greatest or least of two: NaN if one is, and a zero with the right sign. Null: not of such vectors.
llvm::Value* extreme_avx512(llvm::IRBuilder<>& build, llvm::Value* x, llvm::Value* y, bool greatest);

// 2^x of a vector of float32, within one unit of the last place (1.5 below the least normal
// value).
llvm::Value* exp2_avx512(llvm::IRBuilder<>& build, llvm::Value* x);

}  // namespace quern
