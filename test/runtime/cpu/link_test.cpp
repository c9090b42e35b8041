// Object files to functions in this process, without LLVM: what it makes runs, and nothing else is let in.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "quern/codegen/lower.h"
#include "quern/ir/text/parse.h"
#include "quern/runtime/cpu/compile.h"
#include "quern/runtime/cpu/link.h"
#include "quern/runtime/cpu/relocate.h"
#include "quern/runtime/device.h"

namespace quern::cpu {
namespace {

using testing::HasSubstr;

Code compiled(const char* text) { return compile(lower(parse(text), Device::get("CPU").spec()), true); }

// It has constants, and calls a function of the C library.
const Code& sine() {
  static const Code code = compiled(R"(SINK(END(STORE(INDEX(PARAM(; 0):float64*[4], r0[4]),
      SIN(INDEX(PARAM(; 1):float64*[4], r0):float64) * 3.0), r0); {name: "sine"}))");
  return code;
}

// Machine code has no record of its type before it, where the sanitizer would look for one.
#if defined(__clang__)
[[clang::no_sanitize("function")]]
#endif
void call(const Linked& linked, void** memory) {
  linked.function(memory, nullptr, nullptr, 0, nullptr);
}

std::string refusal(const Code& code) {
  try {
    link(code);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Link, WhatIsMadeRuns) {
  double out[4] = {}, in[4] = {0, 0.5, 1, 2};
  void* memory[] = {out, in};
  const Linked linked = link(sine());
  call(linked, memory);
  for (int i = 0; i < 4; i++) EXPECT_EQ(out[i], std::sin(in[i]) * 3.0);
}

TEST(Link, OtherFilesAreRefused) {
  Code code = sine();
  code.object = "";
  EXPECT_THAT(refusal(code), HasSubstr("object file of kernel sine"));
  code.object = std::string(4096, '\0');
  EXPECT_THAT(refusal(code), HasSubstr("none for this processor"));
  code = sine();
  code.function = "cosine";
  EXPECT_THAT(refusal(code), HasSubstr("does not have the kernel's function"));
}

TEST(Link, EveryLengthButItsOwnIsRefused) {
  for (size_t size = 0; size < sine().object.size(); size++) {
    Code code = sine();
    code.object.resize(size);
    ASSERT_NE(refusal(code), "") << size;
  }
}

// Refused or not, what is read and written stays inside. Nothing of it is called.
TEST(LinkFuzz, DamageIsHarmless) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; i++) {
    Code code = sine();
    for (int k = 0; k < 1 + i % 4; k++) {
      const size_t at = random() % code.object.size();
      const uint64_t values[] = {0, 0xff, 0x7f, 0x80, random() & 0xffU};
      code.object[at] = static_cast<char>(values[random() % 5]);
      if (random() % 4 == 0 && at + 8 <= code.object.size()) std::memset(&code.object[at], 0xff, 8);
    }
    refusal(code);
  }
}

// ---- relocations

uint32_t relocated(uint32_t instruction, const Relocation& relocation) {
  std::byte bytes[4];
  std::memcpy(bytes, &instruction, sizeof instruction);
  EXPECT_EQ(relocated_bytes(relocation.machine, relocation.type), sizeof instruction);
  EXPECT_TRUE(relocate(relocation, bytes));
  std::memcpy(&instruction, bytes, sizeof instruction);
  return instruction;
}
bool refused(const Relocation& relocation) {
  std::byte bytes[8] = {};
  return !relocate(relocation, bytes);
}

TEST(Relocate, X86) {
  EXPECT_EQ(relocated(0, {EM_X86_64, R_X86_64_PC32, 0x5000, 0x5010}), 0x10U);
  EXPECT_EQ(relocated(0, {EM_X86_64, R_X86_64_PLT32, 0x5010, 0x5000}), 0xfffffff0U);
  EXPECT_EQ(relocated(0, {EM_X86_64, R_X86_64_GOTPCRELX, 0x5000, 0x1, 0x5020}), 0x20U);
  EXPECT_TRUE(refused({EM_X86_64, R_X86_64_GOTPCRELX, 0x5000, 0x5010}));
  EXPECT_TRUE(refused({EM_X86_64, R_X86_64_PC32, 0x5000, 0x1'0000'5000}));
  EXPECT_TRUE(refused({EM_X86_64, R_X86_64_TPOFF32, 0x5000, 0x5010}));
  EXPECT_TRUE(refused({EM_386, R_386_PC32, 0x5000, 0x5010}));
}

// The instructions are as an assembler writes them.
TEST(Relocate, Arm) {
  // adrp x0, 3 pages on; adrp x0, one page back
  EXPECT_EQ(relocated(0x90000000U, {EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, 0x5ff0, 0x8004}), 0xf0000000U);
  EXPECT_EQ(relocated(0x90000000U, {EM_AARCH64, R_AARCH64_ADR_PREL_PG_HI21, 0x5000, 0x4fff}), 0xf0ffffe0U);
  // add x0, x0, #0x123; ldr d0, [x0, #0x128]; ldr q0, [x0, #0x120]
  EXPECT_EQ(relocated(0x91000000U, {EM_AARCH64, R_AARCH64_ADD_ABS_LO12_NC, 0x5000, 0x9123}), 0x91048c00U);
  EXPECT_EQ(relocated(0xfd400000U, {EM_AARCH64, R_AARCH64_LDST64_ABS_LO12_NC, 0x5000, 0x9128}), 0xfd409400U);
  EXPECT_EQ(relocated(0x3dc00000U, {EM_AARCH64, R_AARCH64_LDST128_ABS_LO12_NC, 0x5000, 0x9120}), 0x3dc04800U);
  // bl 8 bytes on; b 4 bytes back
  EXPECT_EQ(relocated(0x94000000U, {EM_AARCH64, R_AARCH64_CALL26, 0x5000, 0x5008}), 0x94000002U);
  EXPECT_EQ(relocated(0x14000000U, {EM_AARCH64, R_AARCH64_JUMP26, 0x5004, 0x5000}), 0x17ffffffU);
  EXPECT_TRUE(refused({EM_AARCH64, R_AARCH64_CALL26, 0, 0x10000000}));
  EXPECT_TRUE(refused({EM_AARCH64, R_AARCH64_LDST64_ABS_LO12_NC, 0x5000, 0x9124}));
  EXPECT_TRUE(refused({EM_AARCH64, R_AARCH64_TLSDESC_CALL, 0x5000, 0x5010}));
}

}  // namespace
}  // namespace quern::cpu
