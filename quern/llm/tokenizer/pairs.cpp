// Encoders that merge pairs.
#include <array>
#include <optional>

#include "quern/base/error.h"
#include "quern/llm/tokenizer/encoders.h"
#include "quern/llm/tokenizer/spaces.h"
#include "quern/llm/tokenizer/utf8.h"

namespace quern::llm {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteLetters {
  std::array<std::string, 256> letter;
  std::unordered_map<char32_t, uint8_t> byte;
  ByteLetters() {
    char32_t next = 0x100;
    for (int b = 0; b < 256; b++) {
      const char32_t code = stands_for_itself(b) ? static_cast<char32_t>(b) : next++;
      append_character(letter[static_cast<size_t>(b)], code);
      byte.emplace(code, static_cast<uint8_t>(b));
    }
  }
};

const ByteLetters& byte_letters() {
  static const ByteLetters letters;
  return letters;
}

// The token of a byte, or the one for what is not known.
void append_byte(const Vocabulary& vocabulary, char byte, std::vector<Token>& tokens) {
  const Token token = vocabulary.byte(static_cast<uint8_t>(byte));
  const Token found = token != kNoToken ? token : vocabulary.unknown;
  if (found != kNoToken) tokens.push_back(found);
}

uint64_t both(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

std::string letters_of(std::string_view bytes) {
  std::string letters;
  for (const char c : bytes) letters += byte_letters().letter[static_cast<uint8_t>(c)];
  return letters;
}

std::string bytes_of(std::string_view letters) {
  std::string bytes;
  while (!letters.empty()) {
    const Character c = first_character(letters);
    const auto found = byte_letters().byte.find(c.code);
    if (c.is_valid && found != byte_letters().byte.end())
      bytes += static_cast<char>(found->second);
    else
      bytes += letters.substr(0, c.length);
    letters.remove_prefix(c.length);
  }
  return bytes;
}

PairEncoder::PairEncoder(const Vocabulary& vocabulary, const PreTokenizer& way, bool byte_level)
    : vocabulary_(&vocabulary), byte_level_(byte_level), whole_pieces_(way.whole_pieces) {
  for (const std::string& expression : way.expressions) expressions_.emplace_back(expression);
  merges_.reserve(vocabulary.merges.size());
  for (size_t i = 0; i < vocabulary.merges.size(); i++) {
    const auto& [left, right] = vocabulary.merges[i];
    merges_.try_emplace(both(number_of(left), number_of(right)),
                        Merge{static_cast<int32_t>(i), number_of(left + right)});
  }
}

int32_t PairEncoder::number_of(const std::string& text) {
  if (const Token token = vocabulary_->find(text); token != kNoToken) return token;
  const auto next = static_cast<int32_t>(vocabulary_->size() + more_.size());
  return more_.try_emplace(text, next).first->second;
}

void PairEncoder::encode(std::string_view text, std::vector<Token>& tokens) const {
  std::string with_marks;
  if (!byte_level_) {
    with_marks = marks_for_spaces(text);
    text = with_marks;
  }
  for (const std::string_view piece : split_by(expressions_, text)) {
    if (byte_level_)
      encode_piece(letters_of(piece), tokens);
    else
      encode_piece(piece, tokens);
  }
}

void PairEncoder::encode_piece(std::string_view letters, std::vector<Token>& tokens) const {
  if (whole_pieces_) {
    if (const Token token = vocabulary_->find(letters); token != kNoToken) {
      tokens.push_back(token);
      return;
    }
  }
  std::vector<Symbol> symbols;
  for (std::string_view rest = letters; !rest.empty();) {
    const std::string_view text = rest.substr(0, first_character(rest).length);
    int32_t id = vocabulary_->find(text);
    if (id == kNoToken)
      if (const auto found = more_.find(text); found != more_.end()) id = found->second;
    symbols.push_back({text, id, -1, -1});
    rest.remove_prefix(text.size());
  }
  merge_pairs(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<RankedPair> {
    if (left.id < 0 || right.id < 0) return {};
    const auto found = merges_.find(both(left.id, right.id));
    if (found == merges_.end()) return {};
    return RankedPair{static_cast<double>(found->second.rank), found->second.merged};
  });
  for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    const Symbol& symbol = symbols[static_cast<size_t>(i)];
    if (symbol.id >= 0 && symbol.id < static_cast<int32_t>(vocabulary_->size()))
      tokens.push_back(symbol.id);
    else
      append_unmerged(symbol.text, tokens);
  }
}

// Of what has no token: that of each letter, or those of its bytes.
void PairEncoder::append_unmerged(std::string_view text, std::vector<Token>& tokens) const {
  while (!text.empty()) {
    const std::string_view letter = text.substr(0, first_character(text).length);
    text.remove_prefix(letter.size());
    if (const Token token = vocabulary_->find(letter); token != kNoToken) {
      tokens.push_back(token);
      continue;
    }
    if (byte_level_) continue;  // a byte that the model has no token for
    for (const char c : letter) append_byte(*vocabulary_, c, tokens);
  }
}

void ScoredPairEncoder::encode(std::string_view given, std::vector<Token>& tokens) const {
  const std::string text = marks_for_spaces(given);
  std::vector<Symbol> symbols;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view letter = rest.substr(0, first_character(rest).length);
    symbols.push_back({letter, vocabulary_->find(letter), -1, -1});
    rest.remove_prefix(letter.size());
  }
  merge_pairs(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<RankedPair> {
    const Token token = vocabulary_->find({left.text.data(), left.text.size() + right.text.size()});
    if (token == kNoToken) return {};
    const bool scored = !vocabulary_->scores.empty();
    return RankedPair{scored ? -static_cast<double>(vocabulary_->scores[static_cast<size_t>(token)]) : 0,
                      token};
  });
  for (int32_t i = symbols.empty() ? -1 : 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    const Symbol& symbol = symbols[static_cast<size_t>(i)];
    if (symbol.id != kNoToken) {
      tokens.push_back(symbol.id);
      continue;
    }
    for (const char c : symbol.text) append_byte(*vocabulary_, c, tokens);
  }
}

}  // namespace quern::llm
