// UTF-8: its characters one by one, and bytes that arrive in parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::llm {

constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Character {
  char32_t code;   // the replacement character if there is no valid one
  uint8_t length;  // in bytes; 1 if it is not valid
  bool is_valid;
  bool is_cut_off;  // not valid, but the text ends within what could become a character
};

Character first_character(std::string_view text);  // of a text that is not empty
void append_character(std::string& text, char32_t code);

// Bytes that arrive in parts become text of whole characters: the beginning of a character waits for the rest
// of it, and what cannot become one is replaced by U+FFFD.
class CharacterStream {
 public:
  std::string add(std::string_view bytes);
  std::string finish();  // what still waits

 private:
  std::string waiting_;
};

std::string valid_utf8(std::string_view bytes);

}  // namespace quern::llm
