// Places in machine code that depend on where it and what it refers to lie: the kinds that LLVM's code for
// kernels has, on x86-64 and AArch64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace quern::cpu {

struct Relocation {
  uint16_t machine;  // EM_X86_64 or EM_AARCH64
  uint32_t type;     // R_X86_64_PC32, ...
  uint64_t place;    // the address at which the code will run
  uint64_t target;   // the address referred to, with what is added to it
  // Where an address stands in memory that is to be called or loaded; none: it does not.
  std::optional<uint64_t> slot = {};
};

// How many bytes are written; 0: a type that is not known here.
size_t relocated_bytes(uint16_t machine, uint32_t type);

// Writes that many bytes at `bytes`, which is where the code is now. False: unknown, or too far away.
bool relocate(const Relocation& relocation, std::byte* bytes);

}  // namespace quern::cpu
