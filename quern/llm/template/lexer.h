// Templates as words.
#pragma once

#include <string>
#include <vector>

namespace quern::llm {

enum class WordKind : uint8_t {
  text,
  begin_output,
  end_output,
  begin_block,
  end_block,
  name,
  integer,
  floating,
  quoted,
  sign,
  end
};

struct Word {
  WordKind kind;
  int line;
  std::string text;  // of quoted ones: what they mean
};

// Spaces around blocks are stripped as chat templates expect it: the first line break behind a block or
// comment, and spaces in front of one that begins a line; and what "-" asks for.
std::vector<Word> template_words(const std::string& source);

}  // namespace quern::llm
