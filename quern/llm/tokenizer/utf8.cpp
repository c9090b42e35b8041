#include "quern/llm/tokenizer/utf8.h"

#include <algorithm>

namespace quern::llm {

Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  const Character invalid{kReplacementCharacter, 1, false, false};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return invalid;
  char32_t code = lead & (0x7FU >> length);
  for (size_t i = 1; i < length; i++) {
    if (i == text.size()) return {kReplacementCharacter, 1, false, true};
    // The second byte decides whether the form is the shortest, no surrogate, and not beyond U+10FFFF.
    const uint8_t least = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t most = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < least || byte(i) > most) return invalid;
    code = code << 6 | (byte(i) & 0x3FU);
  }
  return {code, static_cast<uint8_t>(length), true, false};
}

void append_character(std::string& text, char32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string CharacterStream::add(std::string_view bytes) {
  waiting_ += bytes;
  std::string text;
  size_t at = 0;
  while (at < waiting_.size()) {
    const std::string_view rest = std::string_view(waiting_).substr(at);
    const Character c = first_character(rest);
    if (c.is_cut_off) break;
    if (c.is_valid)
      text += rest.substr(0, c.length);
    else
      append_character(text, kReplacementCharacter);
    at += c.length;
  }
  waiting_.erase(0, at);
  return text;
}

std::string CharacterStream::finish() {
  std::string text;
  if (!waiting_.empty()) append_character(text, kReplacementCharacter);
  waiting_.clear();
  return text;
}

std::string valid_utf8(std::string_view bytes) {
  CharacterStream stream;
  std::string text = stream.add(bytes);
  return text + stream.finish();
}

}  // namespace quern::llm
