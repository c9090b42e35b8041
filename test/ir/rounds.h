// How often a random test runs, and from which seed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "test/fuzz.h"

namespace quern {

// `usual` times; ten times that with QUERN_NIGHTLY=1, a tenth where a sanitizer makes everything slow.
inline int rounds(int usual) {
  const char* nightly = std::getenv("QUERN_NIGHTLY");
  const int wanted = nightly != nullptr && std::string(nightly) == "1" ? usual * 10 : usual;
  return kSanitized ? wanted / 10 : wanted;
}

// QUERN_SEED, to run a failure again.
inline uint64_t first_seed(uint64_t usual = 1) {
  const char* given = std::getenv("QUERN_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

}  // namespace quern
