#include "quern/llm/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/base/error.h"
#include "quern/llm/tokenizer/spaces.h"

namespace quern::llm {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

Tokenizer::State::State(const Metadata& metadata) : vocabulary(vocabulary_of(metadata)) {
  const Vocabulary& v = vocabulary;
  if (v.model == "gpt2")
    encoder.emplace(PairEncoder(v, pre_tokenizer_called(v.pre_tokenizer), true));
  else if (v.model == "gemma4")
    encoder.emplace(PairEncoder(v, pre_tokenizer_called("gemma4"), false));
  else if (v.model == "llama")
    encoder.emplace(ScoredPairEncoder(v));
  else if (v.model == "t5")
    encoder.emplace(UnigramEncoder(v));
  else
    encoder.emplace(WordPieceEncoder(v));

  for (size_t i = 0; i < v.size(); i++) {
    const TokenKind kind = v.kinds[i];
    if (kind != TokenKind::control && kind != TokenKind::user_defined && kind != TokenKind::unknown) continue;
    if (!v.texts[i].empty()) special[static_cast<uint8_t>(v.texts[i][0])].push_back(static_cast<Token>(i));
  }
  for (auto& tokens : special)
    std::ranges::stable_sort(tokens, [&](Token a, Token b) {
      return v.texts[static_cast<size_t>(a)].size() > v.texts[static_cast<size_t>(b)].size();
    });
}

Tokenizer::Tokenizer(const Metadata& metadata) : state_(std::make_shared<State>(metadata)) {}

// The longest token with which the text begins. Tokens that the user of a model defined are found in any
// text.
Token Tokenizer::special_at(std::string_view text, bool parse_special) const {
  const Vocabulary& v = vocabulary();
  for (const Token token : state_->special[static_cast<uint8_t>(text[0])]) {
    const auto i = static_cast<size_t>(token);
    if ((parse_special || v.kinds[i] == TokenKind::user_defined) && text.starts_with(v.texts[i]))
      return token;
  }
  return kNoToken;
}

void Tokenizer::encode_plain(std::string_view text, std::vector<Token>& tokens) const {
  if (text.empty()) return;
  std::string prefixed;
  if (std::holds_alternative<ScoredPairEncoder>(*state_->encoder) && vocabulary().add_space_prefix) {
    prefixed = " " + std::string(text);
    text = prefixed;
  }
  std::visit([&](const auto& encoder) { encoder.encode(text, tokens); }, *state_->encoder);
}

std::vector<Token> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const Vocabulary& v = vocabulary();
  std::vector<Token> tokens;
  if (options.add_special && v.add_bos && v.bos != kNoToken) tokens.push_back(v.bos);
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Token token = special_at(text.substr(at), options.parse_special);
    if (token == kNoToken) {
      at++;
      continue;
    }
    encode_plain(text.substr(begin, at - begin), tokens);
    tokens.push_back(token);
    at += v.texts[static_cast<size_t>(token)].size();
    if (v.strip_after_control && v.kinds[static_cast<size_t>(token)] == TokenKind::control && token != v.bos)
      while (at < text.size() && is_space(text[at])) at++;
    begin = at;
  }
  encode_plain(text.substr(begin), tokens);
  if (options.add_special && v.add_eos && v.eos != kNoToken) tokens.push_back(v.eos);
  return tokens;
}

std::string Tokenizer::bytes(Token token, bool special) const {
  const Vocabulary& v = vocabulary();
  const auto i = static_cast<size_t>(token);
  if (token < 0 || i >= v.size())
    throw ValueError(fmt::format("token {}: the vocabulary has {} tokens", token, v.size()));
  switch (v.kinds[i]) {
    case TokenKind::control:
    case TokenKind::unknown: return special ? v.texts[i] : "";
    case TokenKind::user_defined:
      if (v.model == "gpt2") return v.texts[i];
      break;
    case TokenKind::byte:
      for (int b = 0; b < 256; b++)
        if (v.byte_tokens[static_cast<size_t>(b)] == token) return std::string(1, static_cast<char>(b));
      break;
    default: break;
  }
  return v.model == "gpt2" ? bytes_of(v.texts[i]) : spaces_for_marks(v.texts[i]);
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool special) const {
  const Vocabulary& v = vocabulary();
  std::string text;
  for (const Token token : tokens) text += bytes(token, special);
  // The space that encode() puts in front.
  const bool prefixed = v.model == "bert" || (v.model != "gpt2" && v.add_space_prefix);
  if (prefixed && text.starts_with(' ')) text.erase(0, 1);
  return valid_utf8(text);
}

bool Tokenizer::is_end(Token token) const {
  return std::ranges::find(vocabulary().ends, token) != vocabulary().ends.end();
}

std::string_view Tokenizer::text(Token token) const {
  if (token == kNoToken) return "";
  return vocabulary().texts.at(static_cast<size_t>(token));
}

}  // namespace quern::llm
