// Text to tokens and back, as the file of a model says.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <variant>

#include "quern/llm/tokenizer/encoders.h"
#include "quern/llm/tokenizer/utf8.h"

namespace quern::llm {

struct EncodeOptions {
  bool add_special = true;     // the tokens that begin and end a text, if the model has them
  bool parse_special = false;  // the texts of control tokens in the text become these tokens
};

// A handle; copies share what is in it. Threads may use it at the same time.
class Tokenizer {
 public:
  explicit Tokenizer(const Metadata& metadata);  // an Error says what the file lacks

  std::vector<Token> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Text of whole characters: bytes that are none are replaced by U+FFFD. Control tokens are left out unless
  // `special`.
  std::string decode(std::span<const Token> tokens, bool special = false) const;

  // What one token adds to a text, as bytes: perhaps a part of a character (CharacterStream puts them
  // together).
  std::string bytes(Token token, bool special = false) const;

  const Vocabulary& vocabulary() const { return state_->vocabulary; }
  size_t size() const { return vocabulary().size(); }
  bool is_end(Token token) const;            // of an answer
  std::string_view text(Token token) const;  // as the vocabulary has it; "" for kNoToken

 private:
  using Encoder = std::variant<PairEncoder, ScoredPairEncoder, UnigramEncoder, WordPieceEncoder>;
  struct State {
    explicit State(const Metadata& metadata);
    Vocabulary vocabulary;
    std::optional<Encoder> encoder;
    std::array<std::vector<Token>, 256> special;  // by the first byte, the longest first
  };
  Token special_at(std::string_view text, bool parse_special) const;
  void encode_plain(std::string_view text, std::vector<Token>& tokens) const;
  std::shared_ptr<const State> state_;
};

}  // namespace quern::llm
