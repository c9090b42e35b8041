// Characters in lower case and without accents, as BERT's words are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::llm {

// `count` characters from `first` on, `step` apart, become those from `to` on, as far apart.
struct FoldedRun {
  char32_t first;
  uint16_t count;
  uint8_t step;
  char32_t to;
};
struct FoldedText {
  char32_t character;
  std::u32string_view text;
};
inline constexpr size_t kFoldedRuns = 2056, kFoldedTexts = 43;  // both are sorted
extern const std::array<FoldedRun, kFoldedRuns> folded_runs;
extern const std::array<FoldedText, kFoldedTexts> folded_texts;

// Nonspacing marks that stand alone are left as they are.
std::string folded(std::string_view text);

}  // namespace quern::llm
