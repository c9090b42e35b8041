#include "quern/render/llvm/masks.h"

#include <fmt/format.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/InlineAsm.h>

#include <bit>

namespace quern {
namespace {

using llvm::BasicBlock;
using llvm::Value;
using Vectors = LlvmOptions::Vectors;

llvm::FixedVectorType* vector_type(Value* v) { return llvm::cast<llvm::FixedVectorType>(v->getType()); }
llvm::Align alignment(llvm::Type* lane) { return llvm::Align(lane->getScalarSizeInBits() / 8); }

// ---- where the hardware has masks

// An instruction for lanes of so many bytes, in parts of so many lanes: none if there is no such instruction.
struct Instruction {
  std::string name;
  unsigned lanes = 0;
  explicit operator bool() const { return lanes > 0; }
};

Instruction instruction_for(Vectors vectors, llvm::FixedVectorType* type) {
  const unsigned bits = type->getScalarSizeInBits(), lanes = type->getNumElements();
  const unsigned most = vectors == Vectors::AVX512 ? 512 : 256;
  if (vectors == Vectors::PLAIN || !std::has_single_bit(lanes) || bits * lanes < 128) return {};
  const unsigned in_part = std::min(lanes, most / bits);
  if (vectors == Vectors::AVX512) return {fmt::format("vmovdqu{}", bits), in_part};
  if (bits == 32 || bits == 64) return {bits == 32 ? "vpmaskmovd" : "vpmaskmovq", in_part};
  return {};
}

// Accesses lanes of integers, as many as the instruction takes.
class Named {
 public:
  Named(llvm::IRBuilder<>& build, Vectors vectors, const Instruction& instruction,
        llvm::FixedVectorType* type)
      : build_(build), vectors_(vectors), name_(instruction.name) {
    type_ = llvm::FixedVectorType::get(build.getIntNTy(type->getScalarSizeInBits()), instruction.lanes);
  }

  llvm::CallInst* read(Value* from, Value* mask, Value* otherwise) {
    const bool merges = vectors_ == Vectors::AVX512;  // else what is not read is 0
    Value* given = bits_of(mask);
    llvm::CallInst* call = merges
                               ? assembled("{} $1, $0 {{$2}}", "=v,*m,^Yk,0", type_, {from, given, otherwise})
                               : assembled("{} $1, $2, $0", "=x,*m,x", type_, {from, given});
    call->setMemoryEffects(llvm::MemoryEffects::argMemOnly(llvm::ModRefInfo::Ref));
    return call;
  }
  Value* merged(Value* read, Value* mask, Value* otherwise) {
    return vectors_ == Vectors::AVX512 ? read : build_.CreateSelect(mask, read, otherwise);
  }
  llvm::CallInst* write(Value* to, Value* mask, Value* stored) {
    const bool by_bits = vectors_ == Vectors::AVX512;
    llvm::CallInst* call =
        assembled(by_bits ? "{} $1, $0 {{$2}}" : "{} $1, $2, $0", by_bits ? "=*m,v,^Yk" : "=*m,x,x",
                  build_.getVoidTy(), {to, stored, bits_of(mask)});
    call->setMemoryEffects(llvm::MemoryEffects::argMemOnly(llvm::ModRefInfo::Mod));
    return call;
  }
  llvm::Type* type() const { return type_; }

 private:
  // A bit each in a register of masks, or all bits of a lane.
  Value* bits_of(Value* mask) {
    if (vectors_ == Vectors::AVX2) return build_.CreateSExt(mask, type_);
    const unsigned lanes = type_->getNumElements();
    return build_.CreateZExt(build_.CreateBitCast(mask, build_.getIntNTy(lanes)),
                             build_.getIntNTy(std::max(lanes, 8U)));
  }

  // The first operand is an address.
  llvm::CallInst* assembled(fmt::string_view text, const char* constraints, llvm::Type* result,
                            llvm::ArrayRef<Value*> operands) {
    llvm::SmallVector<llvm::Type*> types;
    for (Value* v : operands) types.push_back(v->getType());
    auto* function = llvm::InlineAsm::get(llvm::FunctionType::get(result, types, false),
                                          fmt::format(fmt::runtime(text), name_), constraints, false);
    llvm::CallInst* call = build_.CreateCall(function, operands);
    call->addParamAttr(0, llvm::Attribute::get(build_.getContext(), llvm::Attribute::ElementType, type_));
    call->setDoesNotThrow();
    call->addFnAttr(llvm::Attribute::WillReturn);
    return call;
  }

  llvm::IRBuilder<>& build_;
  Vectors vectors_;
  const std::string& name_;
  llvm::FixedVectorType* type_;
};

}  // namespace

// Lanes of a vector, and where one of them is.
Value* MaskedLanes::part(Value* vector, unsigned first, unsigned count) {
  if (vector_type(vector)->getNumElements() == count) return vector;
  llvm::SmallVector<int> lanes;
  for (unsigned i = 0; i < count; i++) lanes.push_back(static_cast<int>(first + i));
  return build_.CreateShuffleVector(vector, lanes);
}
Value* MaskedLanes::lane_address(llvm::FixedVectorType* type, Value* from, unsigned lane) {
  return build_.CreateConstGEP1_64(type->getElementType(), from, lane);
}

Value* MaskedLanes::read(Value* from, Value* mask, Value* otherwise, const Mark& mark) {
  llvm::FixedVectorType* type = vector_type(otherwise);
  const Instruction instruction = instruction_for(vectors_, type);
  if (!instruction) return read_apart(from, mask, otherwise, mark);
  Named named(build_, vectors_, instruction, type);
  llvm::SmallVector<Value*> parts;
  for (unsigned at = 0; at < type->getNumElements(); at += instruction.lanes) {
    Value* bits = part(mask, at, instruction.lanes);
    Value* rest = build_.CreateBitCast(part(otherwise, at, instruction.lanes), named.type());
    llvm::CallInst* call = named.read(lane_address(type, from, at), bits, rest);
    mark(call);
    parts.push_back(named.merged(call, bits, rest));
  }
  return build_.CreateBitCast(llvm::concatenateVectors(build_, parts), type);
}

void MaskedLanes::write(Value* to, Value* mask, Value* stored, const Mark& mark) {
  llvm::FixedVectorType* type = vector_type(stored);
  const Instruction instruction = instruction_for(vectors_, type);
  if (!instruction) return write_apart(to, mask, stored, mark);
  Named named(build_, vectors_, instruction, type);
  for (unsigned at = 0; at < type->getNumElements(); at += instruction.lanes)
    mark(named.write(lane_address(type, to, at), part(mask, at, instruction.lanes),
                     build_.CreateBitCast(part(stored, at, instruction.lanes), named.type())));
}

// ---- where it has none

BasicBlock* MaskedLanes::new_block(const char* name) {
  return BasicBlock::Create(build_.getContext(), name, build_.GetInsertBlock()->getParent());
}

Value* MaskedLanes::on_stack(llvm::Type* vector) {
  Value*& place = places_[vector];
  if (place != nullptr) return place;
  BasicBlock& entry = build_.GetInsertBlock()->getParent()->getEntryBlock();
  return place = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(vector);
}

// A loop over the bits of the mask: written out, such accesses would be most of a program's code.
void MaskedLanes::copy(Value* mask, llvm::Type* lane_type, Value* from, Value* to) {
  BasicBlock *before = build_.GetInsertBlock(), *loop = new_block("lanes"), *copy = new_block("lane"),
             *then = new_block("then");
  llvm::Type* bits_type = build_.getIntNTy(vector_type(mask)->getNumElements());
  Value* all = build_.CreateBitCast(mask, bits_type);
  build_.CreateBr(loop);

  build_.SetInsertPoint(loop);
  llvm::PHINode* bits = build_.CreatePHI(bits_type, 2);
  bits->addIncoming(all, before);
  build_.CreateCondBr(build_.CreateIsNull(bits), then, copy);

  build_.SetInsertPoint(copy);
  Value* first = build_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, build_.getTrue());
  Value* lane = build_.CreateZExtOrTrunc(first, build_.getInt64Ty());
  const llvm::Align align = alignment(lane_type);
  Value* read = build_.CreateAlignedLoad(lane_type, build_.CreateGEP(lane_type, from, lane), align);
  build_.CreateAlignedStore(read, build_.CreateGEP(lane_type, to, lane), align);
  Value* one = llvm::ConstantInt::get(bits_type, 1);
  bits->addIncoming(build_.CreateAnd(bits, build_.CreateSub(bits, one)), copy);
  build_.CreateBr(loop);

  build_.SetInsertPoint(then);
}

Value* MaskedLanes::read_apart(Value* from, Value* mask, Value* otherwise, const Mark& mark) {
  llvm::FixedVectorType* type = vector_type(otherwise);
  Value* place = on_stack(type);
  BasicBlock *all = new_block("all"), *some = new_block("some"), *then = new_block("then");
  build_.CreateCondBr(build_.CreateAndReduce(mask), all, some);

  build_.SetInsertPoint(all);
  llvm::LoadInst* together = build_.CreateAlignedLoad(type, from, alignment(type));
  mark(together);
  build_.CreateBr(then);

  build_.SetInsertPoint(some);
  build_.CreateStore(otherwise, place);
  copy(mask, type->getElementType(), from, place);
  Value* apart = build_.CreateLoad(type, place);
  BasicBlock* copied = build_.GetInsertBlock();
  build_.CreateBr(then);

  build_.SetInsertPoint(then);
  llvm::PHINode* result = build_.CreatePHI(type, 2);
  result->addIncoming(together, all);
  result->addIncoming(apart, copied);
  return result;
}

void MaskedLanes::write_apart(Value* to, Value* mask, Value* stored, const Mark& mark) {
  llvm::FixedVectorType* type = vector_type(stored);
  Value* place = on_stack(type);
  BasicBlock *all = new_block("all"), *some = new_block("some"), *then = new_block("then");
  build_.CreateCondBr(build_.CreateAndReduce(mask), all, some);

  build_.SetInsertPoint(all);
  mark(build_.CreateAlignedStore(stored, to, alignment(type)));
  build_.CreateBr(then);

  build_.SetInsertPoint(some);
  build_.CreateStore(stored, place);
  copy(mask, type->getElementType(), place, to);
  build_.CreateBr(then);

  build_.SetInsertPoint(then);
}

}  // namespace quern
