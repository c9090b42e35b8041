// Where the random numbers of the process are. Numbers that were drawn are graphs over two variables, the
// key and the count of what was drawn before: programs serve for all values of them.
#pragma once

#include <cstdint>
#include <string_view>

namespace quern::detail {

struct RandomState {
  uint64_t key, drawn;  // made of the seed; 32-bit words so far
};
RandomState random_state();
RandomState draw_words(uint64_t n);  // what it was; from now on these are drawn

// Names of the variables, followed by what tells them apart. Values are those of RandomState, as signed
// numbers.
inline constexpr std::string_view kKey = "_random_key", kDrawn = "_random_drawn";

}  // namespace quern::detail
