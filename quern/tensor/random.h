// Where the random numbers of the process are. Numbers that were drawn are graphs over two variables, the
// seed and the count of what was drawn before: programs serve for all values of them.
#pragma once

#include <cstdint>
#include <string_view>

namespace quern::detail {

struct RandomState {
  uint64_t seed, drawn;  // 64-bit words so far
};
RandomState random_state();
RandomState draw_words(uint64_t n);  // what it was; from now on these are drawn

// Names of the variables, followed by what tells them apart. Values are those of RandomState, as signed
// numbers.
inline constexpr std::string_view kSeed = "_seed", kDrawn = "_drawn";

}  // namespace quern::detail
