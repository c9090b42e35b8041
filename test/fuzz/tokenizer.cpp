// Texts that become tokens and come back, in a vocabulary of each kind.
#include <fmt/format.h>

#include "quern/io/bytes.h"
#include "test/fuzz/target.h"
#include "test/llm/small_vocabularies.h"

namespace quern::llm {
namespace {

std::vector<Tokenizer> tokenizers() {
  std::vector<Tokenizer> all;
  for (const char* model : {"gpt2", "llama", "t5", "bert", "gemma4"}) {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "\u2581", "\u2581a", "ab", "abc", "<|x|>"};
    std::vector<int64_t> kinds = {2, 3, 3, 1, 1, 1, 1, 4};
    std::vector<double> scores = {0, 0, 0, -1, -2, -3, -4, 0};
    for (int b = 0; b < 256; b++) {
      const bool letters = std::string(model) == "gpt2";
      tokens.push_back(letters ? letters_of(std::string(1, static_cast<char>(b)))
                               : fmt::format("<0x{:02X}>", b));
      kinds.push_back(letters ? 1 : 6);
      scores.push_back(0);
    }
    SmallVocabulary v(model, tokens);
    v.list("token_type", kinds).list("scores", scores).list<std::string>("merges", {"a b", "ab c"});
    v.set("pre", {std::string("llama-bpe")}).set("unknown_token_id", {uint64_t{0}});
    v.set("bos_token_id", {uint64_t{1}})
        .set("eos_token_id", {uint64_t{2}})
        .set("seperator_token_id", {uint64_t{2}})
        .set("cls_token_id", {uint64_t{1}});
    all.push_back(v.tokenizer());
  }
  return all;
}

void look_at_text(const std::string& text) {
  static const std::vector<Tokenizer> all = tokenizers();
  for (const Tokenizer& t : all) {
    const std::string back = t.decode(t.encode(text, {.parse_special = true}), true);
    QUERN_CHECK(valid_utf8(back) == back, "a text that is not UTF-8");
    const bool is_exact = t.vocabulary().model == "gpt2" || t.vocabulary().model == "gemma4";
    QUERN_CHECK(!is_exact || text.find("\u2581") != std::string::npos ||
                    t.decode(t.encode(text, {.add_special = false})) == valid_utf8(text),
                "another text came back");
  }
}

}  // namespace
}  // namespace quern::llm

FUZZ(quern::llm::look_at_text(std::string(text_of(bytes))))
