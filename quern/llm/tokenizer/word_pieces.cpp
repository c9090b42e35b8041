#include "quern/llm/tokenizer/encoders.h"
#include "quern/llm/tokenizer/folding.h"
#include "quern/llm/tokenizer/spaces.h"

namespace quern::llm {
namespace {

#define QUERN_PUNCTUATION R"(!-/:-@\[-`{-~\p{P})"
#define QUERN_IDEOGRAPHS \
  R"(\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F})"

// A sign of punctuation and an ideograph are words of their own.
constexpr const char* kWords =
    "[" QUERN_PUNCTUATION "]|[" QUERN_IDEOGRAPHS "]|[^\\s" QUERN_PUNCTUATION QUERN_IDEOGRAPHS "]+";
#undef QUERN_PUNCTUATION
#undef QUERN_IDEOGRAPHS

// Marks and control characters vanish, and words stay together across them.
const Regex& what_stays() {
  static const Regex expression(R"((?:[\t\n\r]|[^\p{Mn}\p{C}\x{FFFD}])+)");
  return expression;
}

}  // namespace

WordPieceEncoder::WordPieceEncoder(const Vocabulary& vocabulary) : vocabulary_(&vocabulary), words_(kWords) {
  for (const std::string& text : vocabulary.texts) longest_ = std::max(longest_, text.size());
}

void WordPieceEncoder::encode(std::string_view text, std::vector<Token>& tokens) const {
  std::string letters;
  const std::string in_lower_case = folded(text);
  std::vector<std::string_view> stays, words;
  what_stays().find_all(in_lower_case, stays);
  for (const std::string_view part : stays) letters += part;
  words_.find_all(letters, words);
  for (const std::string_view word : words) {
    const std::string marked = std::string(kSpaceMark).append(word);
    const size_t before = tokens.size();
    for (size_t at = 0; at < marked.size();) {
      size_t length = std::min(longest_, marked.size() - at);
      Token token = kNoToken;
      while (length > 0 &&
             (token = vocabulary_->find(std::string_view(marked).substr(at, length))) == kNoToken)
        length--;
      if (token == kNoToken) {  // the whole word is not known
        tokens.resize(before);
        if (vocabulary_->unknown != kNoToken) tokens.push_back(vocabulary_->unknown);
        break;
      }
      tokens.push_back(token);
      at += length;
    }
  }
}

}  // namespace quern::llm
