// Loads and stores: every index is checked, and what is stored are the bits that to_bits() gives.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "quern/ir/node/const.h"
#include "quern/runtime/interp/machine.h"

namespace quern::interp {
namespace {

[[noreturn, gnu::noinline]] void out_of_range(const Machine& m, uint32_t area, int64_t index, int64_t size) {
  throw IndexError(fmt::format("kernel {}: index {} is out of range for {}, which has {} elements",
                               m.code.name, index, m.code.areas[area].text, size));
}

template <class T>
Slot slot_of(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return {.f = static_cast<double>(value)};
  else
    return {.i = static_cast<int64_t>(value)};
}

template <class T>
T value_in(Slot slot) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(slot.f) ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(slot.f);
  else
    return static_cast<T>(slot.i);
}

std::byte* address(const Instruction& in, Machine& m, size_t bytes) {
  const Machine::Span& area = m.areas[in.b];
  const int64_t index = m.slots[in.a].i + in.number;
  if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(area.elements)) [[unlikely]]
    out_of_range(m, in.b, index, area.elements);
  return area.memory + static_cast<size_t>(index) * bytes;
}

bool closed(const Instruction& in, Machine& m) {
  if (m.invalid[in.a] == 0) [[likely]]
    return false;
  if (in.c == kNoSlot)
    m.slots[in.to].i = 0;  // 0.0 has the same bits
  else
    m.slots[in.to] = m.slots[in.c];
  return true;
}

template <class T>
void load(const Instruction& in, Machine& m) {
  if (closed(in, m)) return;
  T value;
  std::memcpy(&value, address(in, m, sizeof(T)), sizeof(T));
  m.slots[in.to] = slot_of(value);
}

template <class T>
void store(const Instruction& in, Machine& m) {
  if (m.invalid[in.a] != 0) return;
  const T value = value_in<T>(m.slots[in.c]);
  std::memcpy(address(in, m, sizeof(T)), &value, sizeof(T));
}

void load_bool(const Instruction& in, Machine& m) {
  if (closed(in, m)) return;
  m.slots[in.to].i = *address(in, m, 1) != std::byte{0};
}

// Narrow floats, through their bits.
template <class Bits, Scalar scalar>
void load_narrow(const Instruction& in, Machine& m) {
  if (closed(in, m)) return;
  Bits bits;
  std::memcpy(&bits, address(in, m, sizeof(Bits)), sizeof(Bits));
  m.slots[in.to].f = from_bits(bits, DType(scalar)).as_float();
}
template <class Bits, Scalar scalar>
void store_narrow(const Instruction& in, Machine& m) {
  if (m.invalid[in.a] != 0) return;
  const auto bits = static_cast<Bits>(to_bits(Const::of_float(m.slots[in.c].f), DType(scalar)));
  std::memcpy(address(in, m, sizeof(Bits)), &bits, sizeof(Bits));
}

}  // namespace

Function load_for(DType element) {
  switch (element.kind()) {
    case Scalar::Bool: return load_bool;
    case Scalar::Int8: return load<int8_t>;
    case Scalar::UInt8: return load<uint8_t>;
    case Scalar::Int16: return load<int16_t>;
    case Scalar::UInt16: return load<uint16_t>;
    case Scalar::Int32: return load<int32_t>;
    case Scalar::UInt32: return load<uint32_t>;
    case Scalar::Index:
    case Scalar::Int64:
    case Scalar::UInt64: return load<int64_t>;
    case Scalar::FP8E4M3: return load_narrow<uint8_t, Scalar::FP8E4M3>;
    case Scalar::FP8E5M2: return load_narrow<uint8_t, Scalar::FP8E5M2>;
    case Scalar::Float16: return load_narrow<uint16_t, Scalar::Float16>;
    case Scalar::BFloat16: return load_narrow<uint16_t, Scalar::BFloat16>;
    case Scalar::Float32: return load<float>;
    case Scalar::Float64: return load<double>;
    case Scalar::Void: break;
  }
  QUERN_CHECK(false, "memory of void");
}

Function store_for(DType element) {
  switch (element.kind()) {
    case Scalar::Bool:
    case Scalar::Int8:
    case Scalar::UInt8: return store<uint8_t>;
    case Scalar::Int16:
    case Scalar::UInt16: return store<uint16_t>;
    case Scalar::Int32:
    case Scalar::UInt32: return store<uint32_t>;
    case Scalar::Index:
    case Scalar::Int64:
    case Scalar::UInt64: return store<int64_t>;
    case Scalar::FP8E4M3: return store_narrow<uint8_t, Scalar::FP8E4M3>;
    case Scalar::FP8E5M2: return store_narrow<uint8_t, Scalar::FP8E5M2>;
    case Scalar::Float16: return store_narrow<uint16_t, Scalar::Float16>;
    case Scalar::BFloat16: return store_narrow<uint16_t, Scalar::BFloat16>;
    case Scalar::Float32: return store<float>;
    case Scalar::Float64: return store<double>;
    case Scalar::Void: break;
  }
  QUERN_CHECK(false, "memory of void");
}

void join_index(const Instruction& in, Machine& m) {
  m.invalid[in.to] = m.invalid[in.a] | m.invalid[in.b];
  if (m.invalid[in.to] != 0) return;
  const int64_t size = m.slots[static_cast<size_t>(in.number)].i, index = m.slots[in.b].i;
  if (index < 0 || index >= size) out_of_range(m, in.c, index, size);
  m.slots[in.to].i = m.slots[in.a].i * size + index;
}

}  // namespace quern::interp
