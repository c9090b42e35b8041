// The tokens of a model and what the file says of how a text becomes tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quern/llm/metadata.h"

namespace quern::llm {

using Token = int32_t;
inline constexpr Token kNoToken = -1;

// The numbers are those of files.
enum class TokenKind : uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// Finds a std::string_view in a map from std::string.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

struct Vocabulary {
  std::string model;          // "gpt2", "llama", "t5", "bert", ...
  std::string pre_tokenizer;  // its name
  std::vector<std::string> texts;
  std::vector<float> scores;  // as many, or none
  std::vector<TokenKind> kinds;
  std::vector<std::pair<std::string, std::string>> merges;  // the first ones come first
  std::vector<uint8_t> character_map;                       // of SentencePiece's normaliser; or none

  Token bos = kNoToken, eos = kNoToken, unknown = kNoToken, separator = kNoToken, padding = kNoToken;
  std::vector<Token> ends;  // each of them ends an answer
  bool add_bos = false, add_eos = false, add_space_prefix = false, remove_extra_spaces = false;
  // Spaces after control tokens, or before them, that are not part of the text.
  bool strip_after_control = false;

  size_t size() const { return texts.size(); }
  Token find(std::string_view text) const;                        // kNoToken if there is none
  Token byte(uint8_t value) const { return byte_tokens[value]; }  // <0x0A>; kNoToken if there is none

  TextMap<Token> by_text;
  std::vector<Token> byte_tokens;
};

// An Error says what the file lacks or has wrong.
Vocabulary vocabulary_of(const Metadata& metadata);

}  // namespace quern::llm
