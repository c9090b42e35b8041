#include "quern/render/llvm/ops.h"

#include <llvm/IR/Intrinsics.h>

#include "quern/render/llvm/avx512.h"

namespace quern {
namespace {

using llvm::Value;
using llvm::Intrinsic::ID;

llvm::Type* scalar_type(llvm::LLVMContext& c, DType dtype) {
  switch (dtype.kind()) {
    case Scalar::Float16: return llvm::Type::getHalfTy(c);
    case Scalar::BFloat16: return llvm::Type::getBFloatTy(c);
    case Scalar::Float32: return llvm::Type::getFloatTy(c);
    case Scalar::Float64: return llvm::Type::getDoubleTy(c);
    case Scalar::Void: return llvm::Type::getVoidTy(c);
    default: break;
  }
  QUERN_CHECK(!dtype.is_float() && !dtype.is_index(), "LLVM has no type " + dtype.name());
  return llvm::Type::getIntNTy(c, static_cast<unsigned>(dtype.bits()));
}

llvm::Type* with_lanes(llvm::Type* scalar, int lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}

// Sources whose values may be NaN or zeros of either sign, saturating and wrapping casts: as convert() does
// it.
Value* cast(llvm::IRBuilder<>& b, Value* x, DType from, DType to) {
  llvm::Type* type = llvm_type(b.getContext(), to);
  if (to.is_bool()) {
    Value* zero = llvm::Constant::getNullValue(x->getType());
    return from.is_float() ? b.CreateFCmpUNE(x, zero) : b.CreateICmpNE(x, zero);
  }
  if (from.is_float() && to.is_float()) {
    if (to.bits() < from.bits()) return b.CreateFPTrunc(x, type);
    Value* wide = b.CreateFPExt(x, type);
    if (from.kind() != Scalar::Float16 || from.lanes() == 1) return wide;
    // Else LLVM compares, negates and selects the float16 themselves, lane by lane: x86 has no such vectors.
    return b.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {type}, {wide});
  }
  if (from.is_float()) {
    const ID id = to.is_unsigned() ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat;
    return b.CreateIntrinsic(id, {type, x->getType()}, {x});
  }
  const bool is_signed = from.is_signed();
  if (to.is_float()) return is_signed ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
  return is_signed ? b.CreateSExtOrTrunc(x, type) : b.CreateZExtOrTrunc(x, type);
}

Value* compare(llvm::IRBuilder<>& b, Op op, DType in, Value* x, Value* y) {
  if (in.is_float()) {
    switch (op) {
      case Op::CMPEQ: return b.CreateFCmpOEQ(x, y);
      case Op::CMPNE: return b.CreateFCmpUNE(x, y);
      case Op::CMPLT: return b.CreateFCmpOLT(x, y);
      default: return b.CreateFCmpOLE(x, y);
    }
  }
  switch (op) {
    case Op::CMPEQ: return b.CreateICmpEQ(x, y);
    case Op::CMPNE: return b.CreateICmpNE(x, y);
    case Op::CMPLT: return in.is_signed() ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
    default: return in.is_signed() ? b.CreateICmpSLE(x, y) : b.CreateICmpULE(x, y);
  }
}

// Of scalars LLVM makes branches of maximum and minimum on x86; this is as short, without any.
#if defined(__x86_64__)
constexpr bool kBranches = true;
#else
constexpr bool kBranches = false;
#endif
Value* extreme(llvm::IRBuilder<>& b, Value* x, Value* y, bool greatest) {
  // The instruction gives its second operand where neither is greater: both ways are the same value, or
  // zeros.
  auto pick = [&](Value* first, Value* second) {
    Value* better = greatest ? b.CreateFCmpOGT(first, second) : b.CreateFCmpOLT(first, second);
    return b.CreateBitCast(b.CreateSelect(better, first, second),
                           b.getIntNTy(x->getType()->getScalarSizeInBits()));
  };
  Value *one = pick(x, y), *other = pick(y, x);
  Value* bits = greatest ? b.CreateAnd(one, other) : b.CreateOr(one, other);
  return b.CreateSelect(b.CreateFCmpUNO(x, y), b.CreateFAdd(x, y), b.CreateBitCast(bits, x->getType()));
}

Value* extreme_of(llvm::IRBuilder<>& b, Value* x, Value* y, bool greatest, LlvmOptions::Vectors vectors) {
  const bool is_vector = x->getType()->isVectorTy();
  if (!is_vector && kBranches) return extreme(b, x, y, greatest);
  if (is_vector && vectors == LlvmOptions::Vectors::AVX512)
    if (Value* result = extreme_avx512(b, x, y, greatest)) return result;
  return b.CreateBinaryIntrinsic(greatest ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, x, y);
}

// max(x, -x)
bool is_size(const UOp& u) {
  const auto negates = [](const UOp& a, const UOp& b) {
    if (!same(a.src().empty() ? UOp() : a.src(0), b)) return false;
    return a.op() == Op::NEG ||
           (a.op() == Op::MUL && a.src(1).is_const() && a.src(1).value().as_float() == -1);
  };
  return negates(u.src(0), u.src(1)) || negates(u.src(1), u.src(0));
}

Value* on_floats(llvm::IRBuilder<>& b, const UOp& u, llvm::ArrayRef<Value*> x, LlvmOptions::Vectors vectors) {
  auto unary = [&](ID id) { return b.CreateUnaryIntrinsic(id, x[0]); };
  auto binary = [&](ID id) { return b.CreateBinaryIntrinsic(id, x[0], x[1]); };
  switch (u.op()) {
    case Op::NEG: return b.CreateFNeg(x[0]);
    case Op::RECIP: return b.CreateFDiv(llvm::ConstantFP::get(x[0]->getType(), 1.0), x[0]);
    case Op::SQRT: return unary(llvm::Intrinsic::sqrt);
    case Op::EXP2:
      if (vectors == LlvmOptions::Vectors::AVX512 && u.dtype().kind() == Scalar::Float32 &&
          u.dtype().lanes() > 1)
        return exp2_avx512(b, x[0]);
      return unary(llvm::Intrinsic::exp2);
    case Op::LOG2: return unary(llvm::Intrinsic::log2);
    case Op::SIN: return unary(llvm::Intrinsic::sin);
    case Op::COS: return unary(llvm::Intrinsic::cos);
    case Op::TRUNC: return unary(llvm::Intrinsic::trunc);
    case Op::ADD: return b.CreateFAdd(x[0], x[1]);
    case Op::SUB: return b.CreateFSub(x[0], x[1]);
    case Op::MUL: return b.CreateFMul(x[0], x[1]);
    case Op::FDIV: return b.CreateFDiv(x[0], x[1]);
    case Op::MAX:
      if (is_size(u)) return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x[0]);
      return extreme_of(b, x[0], x[1], true, vectors);
    case Op::MIN: return extreme_of(b, x[0], x[1], false, vectors);
    case Op::POW: return binary(llvm::Intrinsic::pow);
    case Op::MULACC: return b.CreateIntrinsic(llvm::Intrinsic::fma, {x[0]->getType()}, {x[0], x[1], x[2]});
    default: return nullptr;
  }
}

Value* on_integers(llvm::IRBuilder<>& b, const UOp& u, llvm::ArrayRef<Value*> x) {
  const bool is_signed = u.dtype().is_signed();
  switch (u.op()) {
    case Op::NEG: return b.CreateNeg(x[0]);
    case Op::ADD: return b.CreateAdd(x[0], x[1]);
    case Op::SUB: return b.CreateSub(x[0], x[1]);
    case Op::MUL: return b.CreateMul(x[0], x[1]);
    case Op::AND: return b.CreateAnd(x[0], x[1]);
    case Op::OR: return b.CreateOr(x[0], x[1]);
    case Op::XOR: return b.CreateXor(x[0], x[1]);
    case Op::SHL: return b.CreateShl(x[0], x[1]);
    case Op::SHR: return is_signed ? b.CreateAShr(x[0], x[1]) : b.CreateLShr(x[0], x[1]);
    case Op::TRUNCDIV: return is_signed ? b.CreateSDiv(x[0], x[1]) : b.CreateUDiv(x[0], x[1]);
    case Op::TRUNCMOD: return is_signed ? b.CreateSRem(x[0], x[1]) : b.CreateURem(x[0], x[1]);
    case Op::MAX:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x[0], x[1]);
    case Op::MIN:
      return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x[0], x[1]);
    default: return nullptr;
  }
}

}  // namespace

llvm::Type* llvm_type(llvm::LLVMContext& context, DType dtype) {
  return with_lanes(scalar_type(context, dtype), dtype.lanes());
}

llvm::Type* llvm_memory_type(llvm::LLVMContext& context, DType dtype) {
  if (!dtype.scalar().is_bool()) return llvm_type(context, dtype);
  return with_lanes(llvm::Type::getInt8Ty(context), dtype.lanes());
}

llvm::Constant* llvm_constant(llvm::LLVMContext& context, DType dtype, Const value) {
  QUERN_CHECK(!value.is_invalid(), "an invalid index outside of a gate");
  llvm::Type* type = llvm_type(context, dtype);
  if (!dtype.is_float())
    return llvm::ConstantInt::get(type, static_cast<uint64_t>(value.as_int()), dtype.is_signed());
  // By bits: the NaN is the one that memory holds.
  const llvm::APInt bits(static_cast<unsigned>(dtype.bits()), to_bits(value, dtype.scalar()));
  llvm::Type* scalar = type->getScalarType();
  llvm::Constant* one = llvm::ConstantFP::get(context, llvm::APFloat(scalar->getFltSemantics(), bits));
  if (dtype.lanes() == 1) return one;
  return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(dtype.lanes())),
                                        one);
}

Value* llvm_op(llvm::IRBuilder<>& build, const UOp& u, llvm::ArrayRef<Value*> x,
               LlvmOptions::Vectors vectors) {
  const DType in = u.src().back().dtype();
  Value* result = nullptr;
  if (u.op() == Op::CAST)
    result = cast(build, x[0], in, u.dtype());
  else if (u.op() == Op::BITCAST)
    result = build.CreateBitCast(x[0], llvm_type(build.getContext(), u.dtype()));
  else if (u.op() == Op::WHERE)
    result = build.CreateSelect(x[0], x[1], x[2]);
  else if (is_comparison(u.op()))
    result = compare(build, u.op(), in, x[0], x[1]);
  else
    result = in.is_float() ? on_floats(build, u, x, vectors) : on_integers(build, u, x);
  QUERN_CHECK(result != nullptr, std::string(name(u.op())) + " of " + in.name() + " has no LLVM instruction");
  return result;
}

}  // namespace quern
