// The types of values: scalars, vectors of them, and pointers with an address space and a size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quern {

// The order is the order of promotion where two types are comparable; see promote().
enum class Scalar : uint8_t {
  Void,  // a node that has no value (SINK, STORE, ...)
  Bool,
  Index,  // arithmetic on sizes: signed, 64 bits, never overflows in a correct program
  Int8,
  UInt8,
  Int16,
  UInt16,
  Int32,
  UInt32,
  Int64,
  UInt64,
  FP8E4M3,  // no infinities; one NaN per sign; largest value 448
  FP8E5M2,  // IEEE-like: infinities and NaNs; largest value 57344
  Float16,
  BFloat16,
  Float32,
  Float64,
};

enum class AddrSpace : uint8_t { GLOBAL, LOCAL, REG };

const char* name(AddrSpace space);

// A value type of 16 bytes. A pointer's scalar and lanes are those of the elements it points to.
class DType {
 public:
  static constexpr int kMaxLanes = 1024;
  static constexpr int64_t kUnsized = -1;  // a pointer to memory of unknown size

  constexpr DType() = default;
  constexpr explicit DType(Scalar scalar) : scalar_(scalar) {}

  constexpr Scalar kind() const { return scalar_; }
  constexpr int lanes() const { return lanes_; }
  constexpr bool is_ptr() const { return is_ptr_; }
  constexpr AddrSpace space() const { return space_; }  // of a pointer
  constexpr int64_t size() const { return size_; }      // of a pointer, in elements; kUnsized if unknown

  // The parts and the wholes.
  constexpr DType scalar() const { return DType(scalar_); }  // of a vector or pointer: its scalar type
  // A vector of this scalar type: 1 <= lanes <= kMaxLanes. A pointer to elements of this type. There are
  // neither vectors of pointers, nor pointers to pointers, nor either of void: DTypeError.
  DType vec(int lanes) const;
  DType ptr(int64_t size = kUnsized, AddrSpace space = AddrSpace::GLOBAL) const;
  DType base() const;  // what a pointer points to; any other type is its own base

  // Questions about the scalar. A pointer is none of these.
  constexpr bool is_void() const { return !is_ptr_ && scalar_ == Scalar::Void; }
  constexpr bool is_bool() const { return !is_ptr_ && scalar_ == Scalar::Bool; }
  constexpr bool is_index() const { return !is_ptr_ && scalar_ == Scalar::Index; }
  constexpr bool is_int() const { return !is_ptr_ && scalar_ >= Scalar::Index && scalar_ <= Scalar::UInt64; }
  constexpr bool is_unsigned() const {
    return !is_ptr_ && (scalar_ == Scalar::UInt8 || scalar_ == Scalar::UInt16 || scalar_ == Scalar::UInt32 ||
                        scalar_ == Scalar::UInt64);
  }
  constexpr bool is_signed() const { return is_int() && !is_unsigned(); }
  constexpr bool is_float() const { return !is_ptr_ && scalar_ >= Scalar::FP8E4M3; }
  constexpr bool is_fp8() const {
    return !is_ptr_ && (scalar_ == Scalar::FP8E4M3 || scalar_ == Scalar::FP8E5M2);
  }

  // Of one lane: 1 for bool, 0 for void, 64 for index and pointers.
  constexpr int bits() const { return is_ptr_ ? 64 : kScalarBits[static_cast<int>(scalar_)]; }
  int64_t bytes() const;  // of the whole value in memory (bool: 1 byte a lane)

  // "float32", "int8x4", "float32*[1024]", "float32x4*[16]@LOCAL", "int32*" (unsized).
  std::string name() const;
  static DType parse(std::string_view text);  // DTypeError on anything that name() does not print

  friend constexpr bool operator==(const DType&, const DType&) = default;

 private:
  static constexpr uint8_t kScalarBits[] = {0, 1, 64, 8, 8, 16, 16, 32, 32, 64, 64, 8, 8, 16, 16, 32, 64};
  Scalar scalar_ = Scalar::Void;
  bool is_ptr_ = false;
  AddrSpace space_ = AddrSpace::GLOBAL;
  uint16_t lanes_ = 1;
  int64_t size_ = 0;
};

namespace dtypes {
inline constexpr DType void_{Scalar::Void};
inline constexpr DType bool_{Scalar::Bool};
inline constexpr DType index{Scalar::Index};
inline constexpr DType int8{Scalar::Int8};
inline constexpr DType uint8{Scalar::UInt8};
inline constexpr DType int16{Scalar::Int16};
inline constexpr DType uint16{Scalar::UInt16};
inline constexpr DType int32{Scalar::Int32};
inline constexpr DType uint32{Scalar::UInt32};
inline constexpr DType int64{Scalar::Int64};
inline constexpr DType uint64{Scalar::UInt64};
inline constexpr DType fp8e4m3{Scalar::FP8E4M3};
inline constexpr DType fp8e5m2{Scalar::FP8E5M2};
inline constexpr DType float16{Scalar::Float16};
inline constexpr DType bfloat16{Scalar::BFloat16};
inline constexpr DType float32{Scalar::Float32};
inline constexpr DType float64{Scalar::Float64};
// Every scalar type that a tensor may have (neither void nor index), in the order of the enumeration.
inline constexpr DType all[] = {bool_,  int8,    uint8,   int16,   uint16,   int32,   uint32, int64,
                                uint64, fp8e4m3, fp8e5m2, float16, bfloat16, float32, float64};
}  // namespace dtypes

// The smallest type that both convert to: commutative, idempotent, and associative but for one triple.
// Bool is the bottom; index is weak (it gives way to any integer or float type); a signed integer and an
// unsigned of n bits, n no less than its own, meet in the signed integer of 2n bits, uint64 with any integer
// in uint64; any integer and a float give the float; fp8 e4m3 with e5m2 give float16, either with bfloat16
// gives bfloat16, and float16 with bfloat16 give float32. (So e4m3, e5m2 and bfloat16 together give bfloat16
// or float32, by which two are first: both 16-bit floats hold both 8-bit ones, and neither is the smaller.)
// Vectors promote lane by lane and need equal lanes. Pointers and void do not promote: DTypeError.
DType promote(DType a, DType b);

}  // namespace quern
