// SentencePiece's unigrams, and the normaliser that files carry for them.
#include <algorithm>
#include <limits>

#include "quern/base/error.h"
#include "quern/llm/tokenizer/encoders.h"
#include "quern/llm/tokenizer/spaces.h"
#include "quern/llm/tokenizer/utf8.h"

namespace quern::llm {
namespace {

constexpr float kUnknownPenalty = 10;  // below the least score of a token

uint64_t edge(int32_t node, char byte) {
  return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
}

// A unit of a double array (Darts): the label that led to it, and where its children are.
uint32_t label_of(uint32_t unit) { return unit & (0x80000000U | 0xFFU); }
bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 0x200U) >> 6); }

}  // namespace

UnigramEncoder::UnigramEncoder(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {
  if (vocabulary.scores.empty())
    throw Error("the file's tokenizer: a t5 tokenizer needs scores of its tokens");
  float least = std::numeric_limits<float>::infinity();
  token_at_.push_back(kNoToken);
  for (size_t i = 0; i < vocabulary.size(); i++) {
    const TokenKind kind = vocabulary.kinds[i];
    if (kind == TokenKind::normal) least = std::min(least, vocabulary.scores[i]);
    if ((kind != TokenKind::normal && kind != TokenKind::user_defined) || vocabulary.texts[i].empty())
      continue;
    int32_t node = 0;
    for (const char c : vocabulary.texts[i]) {
      const auto [found, is_new] =
          children_.try_emplace(edge(node, c), static_cast<int32_t>(token_at_.size()));
      if (is_new) token_at_.push_back(kNoToken);
      node = found->second;
    }
    token_at_[static_cast<size_t>(node)] = static_cast<Token>(i);
  }
  unknown_score_ = least - kUnknownPenalty;

  const std::vector<uint8_t>& map = vocabulary.character_map;
  if (map.empty()) return;
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 4; i-- > 0;) value = value << 8 | map[at + i];
    return value;
  };
  if (map.size() < 4 || number(0) % 4 != 0 || number(0) > map.size() - 4)
    throw Error("the file's tokenizer: precompiled_charsmap is cut off");
  for (size_t at = 4; at < 4 + number(0); at += 4) replacements_trie_.push_back(number(at));
  replacements_.assign(map.begin() + 4 + number(0), map.end());
}

// What the longest prefix that has a replacement is replaced by, and its length; or the first character.
std::pair<std::string_view, size_t> UnigramEncoder::replaced_prefix(std::string_view text) const {
  size_t length = 0;
  uint32_t replacement = 0;
  const auto unit = [&](uint32_t at) -> uint32_t {
    if (at >= replacements_trie_.size())
      throw Error("the file's tokenizer: precompiled_charsmap points beyond its end");
    return replacements_trie_[at];
  };
  if (!replacements_trie_.empty()) {
    uint32_t node = offset_of(unit(0));
    for (size_t i = 0; i < text.size(); i++) {
      const auto byte = static_cast<uint8_t>(text[i]);
      node ^= byte;
      if (node >= replacements_trie_.size() || label_of(unit(node)) != byte) break;
      const bool ends = has_value(unit(node));
      node ^= offset_of(unit(node));
      if (!ends) continue;
      length = i + 1;
      replacement = unit(node) & 0x7FFFFFFFU;
    }
  }
  if (length > 0) {
    if (replacement >= replacements_.size())
      throw Error("the file's tokenizer: precompiled_charsmap points beyond its end");
    const size_t end = replacements_.find('\0', replacement);
    return {std::string_view(replacements_).substr(replacement, end - replacement), length};
  }
  const Character c = first_character(text);
  static constexpr std::string_view kReplaced = "\uFFFD";
  return {c.is_valid ? text.substr(0, c.length) : kReplaced, c.length};
}

std::string UnigramEncoder::normalised(std::string_view text) const {
  std::string plain;
  while (!text.empty()) {
    const auto [replacement, length] = replaced_prefix(text);
    plain += replacement;
    text.remove_prefix(length);
  }
  std::string result;
  if (vocabulary_->add_space_prefix) result += ' ';
  for (const char c : plain) {
    if (c == ' ' && vocabulary_->remove_extra_spaces && (result.empty() || result.back() == ' ')) continue;
    result += c;
  }
  if (vocabulary_->remove_extra_spaces)
    while (!result.empty() && result.back() == ' ') result.pop_back();
  return marks_for_spaces(result);
}

void UnigramEncoder::encode(std::string_view given, std::vector<Token>& tokens) const {
  const std::string text = normalised(given);
  struct Best {  // of the ways to end here
    double score = -std::numeric_limits<double>::infinity();
    size_t begin = 0;  // of the last token
    Token token = kNoToken;
  };
  std::vector<Best> best(text.size() + 1);
  best[0].score = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t letter = first_character(std::string_view(text).substr(begin)).length;
    bool single = false;
    int32_t node = 0;
    for (size_t end = begin; end < text.size();) {
      const auto child = children_.find(edge(node, text[end++]));
      if (child == children_.end()) break;
      node = child->second;
      const Token token = token_at_[static_cast<size_t>(node)];
      if (token == kNoToken) continue;
      single |= end - begin == letter;
      const bool defined = vocabulary_->kinds[static_cast<size_t>(token)] == TokenKind::user_defined;
      const double score =
          best[begin].score + (defined ? 0 : vocabulary_->scores[static_cast<size_t>(token)]);
      if (score > best[end].score) best[end] = {score, begin, token};
    }
    if (!single && best[begin].score + unknown_score_ > best[begin + letter].score)
      best[begin + letter] = {best[begin].score + unknown_score_, begin, kNoToken};
    begin += letter;
  }
  std::vector<size_t> ends;
  for (size_t at = text.size(); at > 0; at = best[at].begin) ends.push_back(at);
  bool after_unknown = false;
  for (size_t i = ends.size(); i-- > 0;) {
    const Best& b = best[ends[i]];
    if (b.token != kNoToken) {
      tokens.push_back(b.token);
    } else if (vocabulary_->byte(0) != kNoToken) {
      for (size_t at = b.begin; at < ends[i]; at++) {
        const Token byte = vocabulary_->byte(static_cast<uint8_t>(text[at]));
        tokens.push_back(byte != kNoToken ? byte : vocabulary_->unknown);
      }
    } else if (!after_unknown && vocabulary_->unknown != kNoToken) {
      tokens.push_back(vocabulary_->unknown);  // one for all that follow each other
    }
    after_unknown = b.token == kNoToken;
  }
}

}  // namespace quern::llm
