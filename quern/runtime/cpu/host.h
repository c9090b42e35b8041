// What is known of the processor that this runs on, and what the code for it depends on. Needs no LLVM.
#pragma once

#include <cstdint>
#include <string>

namespace quern::cpu {

struct Host {
  std::string name;
  std::string features;  // all that processors tell of themselves: two with the same text run the same code
  int64_t vector_bytes, vector_registers;
  bool converts_float16, has_fma, has_avx512;  // the last: F, VL, BW and DQ of it
};
const Host& host();

// What the code of a program depends on beside the program: processor, LLVM and the sources of quern.
const std::string& compiler_key();

}  // namespace quern::cpu
