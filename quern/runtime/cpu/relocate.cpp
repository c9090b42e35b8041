#include "quern/runtime/cpu/relocate.h"

#include <elf.h>

#include <cstring>

namespace quern::cpu {
namespace {

template <class T>
bool write(std::byte* bytes, T value) {
  std::memcpy(bytes, &value, sizeof value);
  return true;
}

bool fits(int64_t value, int bits) {
  return value >= -(int64_t{1} << (bits - 1)) && value < int64_t{1} << (bits - 1);
}

bool write_distance32(std::byte* bytes, uint64_t from, uint64_t to) {
  const auto distance = static_cast<int64_t>(to - from);
  return fits(distance, 32) && write(bytes, static_cast<int32_t>(distance));
}

bool relocate_x86(const Relocation& r, std::byte* bytes) {
  switch (r.type) {
    case R_X86_64_64: return write(bytes, r.target);
    case R_X86_64_PC64: return write(bytes, r.target - r.place);
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return write_distance32(bytes, r.place, r.target);
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: return r.slot && write_distance32(bytes, r.place, *r.slot);
    default: return false;
  }
}

// `count` bits of an instruction, from bit `at` on.
bool write_field(std::byte* bytes, uint64_t value, int at, int count) {
  uint32_t instruction = 0;
  std::memcpy(&instruction, bytes, sizeof instruction);
  const auto mask = static_cast<uint32_t>(((uint64_t{1} << count) - 1) << at);
  instruction = (instruction & ~mask) | (static_cast<uint32_t>(value << at) & mask);
  return write(bytes, instruction);
}

// ADRP: how many pages of 4096 bytes away, two bits of it apart from the others.
bool write_pages(std::byte* bytes, uint64_t from, uint64_t to) {
  const auto pages = static_cast<int64_t>((to >> 12U) - (from >> 12U));
  if (!fits(pages, 21)) return false;
  const auto bits = static_cast<uint64_t>(pages);
  return write_field(bytes, bits, 29, 2) && write_field(bytes, bits >> 2U, 5, 19);
}

// The place in its page, in units of what is loaded or stored.
bool write_in_page(std::byte* bytes, uint64_t to, int shift) {
  const uint64_t low = to & 0xfffU;
  return (low & ((uint64_t{1} << shift) - 1)) == 0 && write_field(bytes, low >> shift, 10, 12);
}

bool write_jump(std::byte* bytes, uint64_t from, uint64_t to) {
  const auto distance = static_cast<int64_t>(to - from);
  return distance % 4 == 0 && fits(distance, 28) &&
         write_field(bytes, static_cast<uint64_t>(distance) >> 2U, 0, 26);
}

bool relocate_arm(const Relocation& r, std::byte* bytes) {
  switch (r.type) {
    case R_AARCH64_ABS64: return write(bytes, r.target);
    case R_AARCH64_PREL64: return write(bytes, r.target - r.place);
    case R_AARCH64_PREL32: return write_distance32(bytes, r.place, r.target);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: return write_jump(bytes, r.place, r.target);
    case R_AARCH64_ADR_PREL_PG_HI21: return write_pages(bytes, r.place, r.target);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return write_in_page(bytes, r.target, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return write_in_page(bytes, r.target, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return write_in_page(bytes, r.target, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return write_in_page(bytes, r.target, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return write_in_page(bytes, r.target, 4);
    case R_AARCH64_ADR_GOT_PAGE: return r.slot && write_pages(bytes, r.place, *r.slot);
    case R_AARCH64_LD64_GOT_LO12_NC: return r.slot && write_in_page(bytes, *r.slot, 3);
    default: return false;
  }
}

}  // namespace

size_t relocated_bytes(uint16_t machine, uint32_t type) {
  if (machine == EM_X86_64) {
    switch (type) {
      case R_X86_64_64:
      case R_X86_64_PC64: return 8;
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX: return 4;
      default: return 0;
    }
  }
  if (machine != EM_AARCH64) return 0;
  return type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64 ? 8 : 4;
}

bool relocate(const Relocation& relocation, std::byte* bytes) {
  if (relocation.machine == EM_X86_64) return relocate_x86(relocation, bytes);
  return relocation.machine == EM_AARCH64 && relocate_arm(relocation, bytes);
}

}  // namespace quern::cpu
