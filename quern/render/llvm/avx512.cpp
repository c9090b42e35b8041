#include "quern/render/llvm/avx512.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <array>

namespace quern {
namespace {

using llvm::Value;
using llvm::Intrinsic::ID;

constexpr unsigned kRounded = 4;  // operand of vectors of 512 bits: rounded as usual

unsigned lanes_of(const Value* x) {
  return llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
}

// All lanes; what is between the operands and the mask is what the others would be.
Value* unmasked(llvm::IRBuilder<>& b, ID instruction, llvm::SmallVector<Value*> operands) {
  Value* x = operands[0];
  operands.push_back(llvm::PoisonValue::get(x->getType()));
  operands.push_back(llvm::Constant::getAllOnesValue(b.getIntNTy(std::max(lanes_of(x), 8U))));
  if (x->getType()->getPrimitiveSizeInBits() == 512) operands.push_back(b.getInt32(kRounded));
  return b.CreateIntrinsic(instruction, {}, operands);
}

// 0: there is none for such vectors
ID range_instruction(llvm::Type* type) {
  using namespace llvm::Intrinsic;  // NOLINT(google-build-using-namespace): six long names
  const bool is_double = type->getScalarType()->isDoubleTy();
  if (!is_double && !type->getScalarType()->isFloatTy()) return 0;
  switch (type->getPrimitiveSizeInBits()) {
    case 128: return is_double ? x86_avx512_mask_range_pd_128 : x86_avx512_mask_range_ps_128;
    case 256: return is_double ? x86_avx512_mask_range_pd_256 : x86_avx512_mask_range_ps_256;
    case 512: return is_double ? x86_avx512_mask_range_pd_512 : x86_avx512_mask_range_ps_512;
    default: return 0;
  }
}

// x = n + r with n whole and |r| <= 1/2; 2^r = 1 + r * q(r), scaled by 2^n. The instruction that scales knows
// what to do with infinite n and r that is none, and rounds what is below the least normal value.
Value* exp2_of_part(llvm::IRBuilder<>& b, Value* x) {
  // NOLINTNEXTLINE(modernize-use-std-numbers): one that fits, not the constant
  constexpr std::array q = {0x1.62e430p-1, 0x1.ebfbdcp-3,  0x1.c6aee8p-5,
                            0x1.3b2d4ap-7, 0x1.5f3e2cp-10, 0x1.41fd02p-13};
  const auto number = [&](double c) { return llvm::ConstantFP::get(x->getType(), c); };
  Value* n = b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
  Value *r = b.CreateFSub(x, n), *sum = number(q.back());
  const auto next = [&](double c) {
    sum = b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {sum, r, number(c)});
  };
  for (size_t i = q.size() - 1; i-- > 0;) next(q[i]);
  next(1.0);
  const unsigned lanes = lanes_of(x);
  return unmasked(b,
                  lanes == 4   ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_128
                  : lanes == 8 ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256
                               : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512,
                  {sum, n});
}

}  // namespace

Value* extreme_avx512(llvm::IRBuilder<>& b, Value* x, Value* y, bool greatest) {
  const ID instruction = range_instruction(x->getType());
  if (instruction == 0) return nullptr;
  constexpr unsigned kGreatest = 1, kItsSign = 4;  // bits of its operand
  Value* picked = unmasked(b, instruction, {x, y, b.getInt32(kItsSign | (greatest ? kGreatest : 0))});
  // Where one is NaN, the instruction gives the other.
  return b.CreateSelect(b.CreateFCmpUNO(x, y), b.CreateFAdd(x, y), picked);
}

Value* exp2_avx512(llvm::IRBuilder<>& b, Value* x) {
  const unsigned lanes = lanes_of(x);
  const unsigned size = lanes <= 4 ? 4 : lanes <= 8 ? 8 : 16;
  if (lanes == size) return exp2_of_part(b, x);
  Value* result = llvm::PoisonValue::get(x->getType());
  for (unsigned at = 0; at < lanes; at += size) {
    // lanes from `at` on, and what follows the last one is anything
    llvm::SmallVector<int> taken, back, joined;
    for (unsigned i = 0; i < size; i++) taken.push_back(at + i < lanes ? static_cast<int>(at + i) : -1);
    for (unsigned i = 0; i < lanes; i++) {
      const bool inside = i >= at && i < at + size;
      back.push_back(inside ? static_cast<int>(i - at) : -1);
      joined.push_back(static_cast<int>(inside ? lanes + i : i));
    }
    Value* part = exp2_of_part(b, b.CreateShuffleVector(x, taken));
    result = b.CreateShuffleVector(result, b.CreateShuffleVector(part, back), joined);
  }
  return result;
}

}  // namespace quern
