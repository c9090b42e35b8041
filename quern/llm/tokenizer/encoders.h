// The ways in which a text without special tokens becomes tokens. Each takes the vocabulary, which has to
// live as long, and appends tokens to a list; all may be used by several threads at once.
#pragma once

#include <span>

#include "quern/llm/tokenizer/merging.h"
#include "quern/llm/tokenizer/pre_tokenizers.h"
#include "quern/llm/tokenizer/regex.h"
#include "quern/llm/tokenizer/vocabulary.h"

namespace quern::llm {

// The letters that stand for bytes in byte-level vocabularies: printable ones for themselves, others from
// U+0100 on.
std::string letters_of(std::string_view bytes);
// Back; letters that stand for no byte stay as they are.
std::string bytes_of(std::string_view letters);

// Pieces cut by regular expressions, and in each the pairs of a list of merges. `byte_level`: bytes are
// letters; else spaces are U+2581, and what has no token becomes tokens of its bytes.
class PairEncoder {
 public:
  PairEncoder(const Vocabulary& vocabulary, const PreTokenizer& way, bool byte_level);
  void encode(std::string_view text, std::vector<Token>& tokens) const;

 private:
  struct Merge {
    int32_t rank, merged;
  };
  int32_t number_of(const std::string& text);
  void encode_piece(std::string_view letters, std::vector<Token>& tokens) const;
  void append_unmerged(std::string_view text, std::vector<Token>& tokens) const;

  const Vocabulary* vocabulary_;
  bool byte_level_, whole_pieces_;
  std::vector<Regex> expressions_;
  TextMap<int32_t> more_;  // texts of merges that are no tokens, numbered behind the tokens
  std::unordered_map<uint64_t, Merge> merges_;  // by the numbers of both sides
};

// SentencePiece's pairs: neighbours that together are a token, those of the greatest score first.
class ScoredPairEncoder {
 public:
  explicit ScoredPairEncoder(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}
  void encode(std::string_view text, std::vector<Token>& tokens) const;

 private:
  const Vocabulary* vocabulary_;
};

// SentencePiece's unigrams: the tokens whose scores have the greatest sum.
class UnigramEncoder {
 public:
  explicit UnigramEncoder(const Vocabulary& vocabulary);
  void encode(std::string_view text, std::vector<Token>& tokens) const;

 private:
  std::string normalised(std::string_view text) const;
  std::pair<std::string_view, size_t> replaced_prefix(std::string_view text) const;

  const Vocabulary* vocabulary_;
  std::unordered_map<uint64_t, int32_t> children_;  // of a node and a byte
  std::vector<Token> token_at_;                     // the token that ends at a node
  float unknown_score_ = 0;
  std::vector<uint32_t> replacements_trie_;
  std::string replacements_;
};

// BERT's words: in lower case and without accents, and of each the longest tokens from the left.
class WordPieceEncoder {
 public:
  explicit WordPieceEncoder(const Vocabulary& vocabulary);
  void encode(std::string_view text, std::vector<Token>& tokens) const;

 private:
  const Vocabulary* vocabulary_;
  size_t longest_ = 0;
  Regex words_;
};

}  // namespace quern::llm
