// How many random cases a test runs, from which seed, and how one of them is run again.
//
//   QUERN_NIGHTLY=1   the long form
//   QUERN_SEED=7      another seed than the fixed one
//   QUERN_CASE=1234   that case alone
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>

namespace quern {

// Sanitizers make everything ten times slower, so a tenth of the cases has to do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

struct FuzzPlan {
  uint64_t seed = 1;
  uint64_t first = 0, cases = 0;

  // Each case has a generator of its own, so that it does not depend on those before it.
  std::mt19937_64 generator(uint64_t number) const {
    std::seed_seq mix{seed, seed >> 32, number, number >> 32};
    return std::mt19937_64(mix);
  }
  std::string rerun(uint64_t number) const {
    return fmt::format("to run it again: QUERN_SEED={} QUERN_CASE={}", seed, number);
  }
};

inline FuzzPlan fuzz_plan(uint64_t cases, uint64_t nightly_cases) {
  auto variable = [](const char* name) -> std::optional<uint64_t> {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == 0) return std::nullopt;
    return std::strtoull(text, nullptr, 10);
  };
  FuzzPlan plan{.seed = variable("QUERN_SEED").value_or(1), .first = 0, .cases = cases};
  if (kSanitized) plan.cases = cases / 10;
  if (variable("QUERN_NIGHTLY")) plan.cases = nightly_cases;
  if (const auto number = variable("QUERN_CASE")) plan.first = *number, plan.cases = 1;
  return plan;
}

// A random number from `least` to `most`.
inline int64_t pick(std::mt19937_64& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random() % (static_cast<uint64_t>(most - least) + 1));
}
inline bool one_in(std::mt19937_64& random, uint64_t n) { return random() % n == 0; }

}  // namespace quern
