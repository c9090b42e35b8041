// Small vocabularies, as files of GGUF would have them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quern/llm/tokenizer/tokenizer.h"

namespace quern::llm {

struct SmallVocabulary {
  std::map<std::string, io::GgufValue> values;

  SmallVocabulary(const std::string& model, const std::vector<std::string>& tokens) {
    set("model", {model});
    list("tokens", tokens);
  }
  SmallVocabulary& set(const std::string& key, const io::GgufValue& value) {
    values["tokenizer.ggml." + key] = value;
    return *this;
  }
  template <class Element>
  SmallVocabulary& list(const std::string& key, const std::vector<Element>& elements) {
    std::vector<io::GgufValue> all;
    for (const Element& e : elements) all.push_back({e});
    return set(key, {all});
  }
  Tokenizer tokenizer() const { return Tokenizer(Metadata(values)); }
};

inline std::vector<std::string> texts_of(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
  std::vector<std::string> texts;
  for (const Token token : tokens) texts.emplace_back(tokenizer.text(token));
  return texts;
}

}  // namespace quern::llm
