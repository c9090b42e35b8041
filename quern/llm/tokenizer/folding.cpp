#include "quern/llm/tokenizer/folding.h"

#include <algorithm>
#include <iterator>

#include "quern/llm/tokenizer/utf8.h"

namespace quern::llm {
namespace {

constexpr char32_t kFirstSyllable = 0xAC00, kLastSyllable = 0xD7A3;

// A syllable of Hangul is a leading consonant, a vowel and perhaps a trailing consonant.
void append_hangul(std::string& text, char32_t syllable) {
  const char32_t number = syllable - kFirstSyllable;
  append_character(text, 0x1100 + number / 588);
  append_character(text, 0x1161 + number % 588 / 28);
  if (number % 28 != 0) append_character(text, 0x11A7 + number % 28);
}

void append_folded(std::string& text, char32_t code) {
  if (code >= kFirstSyllable && code <= kLastSyllable) {
    append_hangul(text, code);
    return;
  }
  if (const auto* several = std::ranges::lower_bound(folded_texts, code, {}, &FoldedText::character);
      several != folded_texts.end() && several->character == code) {
    for (const char32_t letter : several->text) append_character(text, letter);
    return;
  }
  const auto* after = std::ranges::upper_bound(folded_runs, code, {}, &FoldedRun::first);
  if (after != folded_runs.begin()) {
    const FoldedRun& run = *std::prev(after);
    const char32_t distance = code - run.first;
    if (distance % run.step == 0 && distance / run.step < run.count) code = run.to + distance;
  }
  append_character(text, code);
}

}  // namespace

std::string folded(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Character c = first_character(text);
    append_folded(result, c.code);
    text.remove_prefix(c.length);
  }
  return result;
}

}  // namespace quern::llm
