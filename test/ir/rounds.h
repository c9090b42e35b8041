// How often a random test runs, and from which seed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace quern::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUERN_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define QUERN_SANITIZED 1
#endif
#endif

// `usual` times; ten times that with QUERN_NIGHTLY=1, a tenth where a sanitizer makes everything slow.
inline int rounds(int usual) {
  const char* nightly = std::getenv("QUERN_NIGHTLY");
  const int wanted = nightly != nullptr && std::string(nightly) == "1" ? usual * 10 : usual;
#ifdef QUERN_SANITIZED
  return wanted / 10;
#else
  return wanted;
#endif
}

// QUERN_SEED, to run a failure again.
inline uint64_t seed(uint64_t usual = 1) {
  const char* given = std::getenv("QUERN_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

}  // namespace quern::testing
