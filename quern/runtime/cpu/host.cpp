#include "quern/runtime/cpu/host.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cstring>

#include "quern/base/codegen_version.h"
#include "quern/base/env.h"
#include "quern/base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>

#include <fstream>
#endif

namespace quern::cpu {
namespace {

#if defined(__x86_64__)

struct Leaf {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};
Leaf leaf(uint32_t number, uint32_t part = 0) {
  Leaf r;
  if (number <= __get_cpuid_max(number & 0x80000000U, nullptr))
    __cpuid_count(number, part, r.a, r.b, r.c, r.d);
  return r;
}
bool has(uint32_t bits, unsigned bit) { return ((bits >> bit) & 1U) != 0; }

// What the system saves of the registers when it changes threads.
uint32_t saved_registers() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

std::string brand() {
  const std::array<Leaf, 3> parts = {leaf(0x80000002U), leaf(0x80000003U), leaf(0x80000004U)};
  std::string text(reinterpret_cast<const char*>(parts.data()), sizeof parts);
  text.resize(std::strlen(text.c_str()));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.empty() ? "x86-64" : text;
}

int64_t widest_vectors() {
  const int64_t given = env::CPU_VECTOR_BYTES();
  if (given == 0) return 64;
  if (given != 16 && given != 32 && given != 64)
    throw Error(
        fmt::format("CPU_VECTOR_BYTES={}: expected 16, 32 or 64, or 0 for those of the hardware", given));
  return given;
}

Host detect() {
  const Leaf family = leaf(1), more = leaf(7), yet_more = leaf(7, 1), states = leaf(0xd, 1);
  const Leaf extended = leaf(0x80000001U), sizes = leaf(0x80000008U);
  const uint32_t saved = has(family.c, 27) ? saved_registers() : 0;
  const bool avx = has(family.c, 28) && (saved & 0x6U) == 0x6U;
  const int64_t widest = widest_vectors();
  const bool avx2 = avx && has(more.b, 5) && widest >= 32;
  const bool avx512 = avx && has(more.b, 16) && (saved & 0xe0U) == 0xe0U && widest >= 64;
  // Not what differs between the cores of a machine: leaf 1 has a core's number in b.
  return {.name = brand(),
          .features =
              fmt::format("{:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {:x} {}",
                          family.a, family.c, family.d, more.b, more.c, more.d, yet_more.a, yet_more.b,
                          yet_more.d, states.a, extended.c, extended.d, sizes.b, leaf(0x24).b, saved, widest),
          .vector_bytes = avx512 ? 64
                          : avx2 ? 32
                                 : 16,
          .vector_registers = avx512 ? 32 : 16,
          .converts_float16 = avx && has(family.c, 29),
          .has_fma = avx && has(family.c, 12),
          .has_avx512 = avx512 && has(more.b, 17) && has(more.b, 30) && has(more.b, 31)};
}

#elif defined(__aarch64__)

Host detect() {
  constexpr unsigned long kHalfFloats = 1UL << 9U;  // HWCAP_FPHP
  std::string model = "unknown";
  std::ifstream("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1") >> model;
  const unsigned long features = getauxval(AT_HWCAP);
  return {.name = "AArch64 " + model,
          .features = fmt::format("{:x} {:x}", features, getauxval(AT_HWCAP2)),
          .vector_bytes = 16,
          .vector_registers = 32,
          .converts_float16 = (features & kHalfFloats) != 0,
          .has_fma = true,
          .has_avx512 = false};
}

#else

Host detect() {
  return {.name = "unknown",
          .features = "",
          .vector_bytes = 16,
          .vector_registers = 16,
          .converts_float16 = false,
          .has_fma = false,
          .has_avx512 = false};
}

#endif

// Which LLVM it is: the version that quern was built with, and the file, which may be another since.
std::string llvm() {
  struct stat s = {};
  if (::stat(QUERN_LLVM_LIBRARY, &s) != 0) s = {};
  return fmt::format("LLVM {} {} {}.{}", QUERN_LLVM_VERSION, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

}  // namespace

const Host& host() {
  static const Host found = detect();
  return found;
}

const std::string& compiler_key() {
  static const std::string key =
      fmt::format("{} {} {} {}", kCodegenVersion, host().name, host().features, llvm());
  return key;
}

}  // namespace quern::cpu
