#include "quern/llm/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quern/base/error.h"
#include "quern/llm/tokenizer/pre_tokenizers.h"

namespace quern::llm {
namespace {

// Texts that end an answer in models whose files name only one of several such tokens.
constexpr std::array<std::string_view, 11> kEnds = {
    "<|eot_id|>", "<|im_end|>", "<|end|>",    "<end_of_turn>", "<|endoftext|>",        "<|eom_id|>",
    "<EOT>",      "_<EOT>",     "<|return|>", "<turn|>",       "<｜end▁of▁sentence｜>"};

constexpr size_t kMostTokens = 1 << 22;

class VocabularyReader {
 public:
  explicit VocabularyReader(const Metadata& metadata) : from_(metadata) {}

  Vocabulary read() {
    v_.model = from_.needed_text(key("model"));
    v_.pre_tokenizer = from_.text(key("pre")).value_or("");
    v_.texts = from_.texts(key("tokens"));
    if (v_.texts.empty()) refuse("it has no tokens");
    if (v_.texts.size() > kMostTokens)
      refuse(fmt::format("it has {} tokens; {} are allowed", v_.texts.size(), kMostTokens));
    for (const double score : from_.numbers(key("scores"))) v_.scores.push_back(static_cast<float>(score));
    if (!v_.scores.empty()) check_count("scores", v_.scores.size());
    read_kinds();
    read_merges();
    for (const int64_t byte : from_.integers(key("precompiled_charsmap")))
      v_.character_map.push_back(static_cast<uint8_t>(byte));
    index();
    set_defaults();
    read_numbers();
    find_ends();
    return std::move(v_);
  }

 private:
  static std::string key(const char* name) { return std::string("tokenizer.ggml.") + name; }
  [[noreturn]] static void refuse(const std::string& why) { throw Error("the file's tokenizer: " + why); }

  void check_count(const char* what, size_t count) const {
    if (count != v_.texts.size())
      refuse(fmt::format("it has {} {} for {} tokens", count, what, v_.texts.size()));
  }

  void read_kinds() {
    const std::vector<int64_t> kinds = from_.integers(key("token_type"));
    if (kinds.empty()) {
      v_.kinds.assign(v_.texts.size(), TokenKind::normal);
      return;
    }
    check_count("token types", kinds.size());
    for (const int64_t kind : kinds)  // 0 is "not known"
      v_.kinds.push_back(kind >= 1 && kind <= 6 ? static_cast<TokenKind>(kind) : TokenKind::normal);
  }

  // "left right": neither side has a space, but the left one may begin with one.
  void read_merges() {
    for (const std::string& merge : from_.texts(key("merges"))) {
      const size_t space = merge.find(' ', 1);
      if (space == std::string::npos || space + 1 == merge.size())
        refuse(fmt::format("the merge '{}' is not two texts", merge));
      v_.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
    }
  }

  void index() {
    v_.by_text.reserve(v_.texts.size());
    for (size_t i = 0; i < v_.texts.size(); i++)
      v_.by_text.insert_or_assign(v_.texts[i], static_cast<Token>(i));
    v_.byte_tokens.assign(256, kNoToken);
    for (int b = 0; b < 256; b++)
      v_.byte_tokens[static_cast<size_t>(b)] = v_.find(fmt::format("<0x{:02X}>", b));
  }

  void set_if_there(Token& token, int64_t number) const {
    if (number < static_cast<int64_t>(v_.texts.size())) token = static_cast<Token>(number);
  }

  // What a file means that does not say it.
  void set_defaults() {
    if (v_.model == "llama") {
      set_if_there(v_.bos, 1);
      set_if_there(v_.eos, 2);
      set_if_there(v_.unknown, 0);
      v_.add_bos = v_.add_space_prefix = true;
    } else if (v_.model == "gpt2" || v_.model == "gemma4") {
      const PreTokenizer way = pre_tokenizer_called(v_.model == "gemma4" ? "gemma4" : v_.pre_tokenizer);
      v_.add_bos = way.add_bos;
      v_.add_eos = way.add_eos;
    } else if (v_.model == "t5") {
      set_if_there(v_.eos, 1);
      set_if_there(v_.unknown, 2);
      v_.add_eos = v_.add_space_prefix = true;
    } else if (v_.model == "bert") {
      set_if_there(v_.bos, 101);
      set_if_there(v_.unknown, 100);
      set_if_there(v_.separator, 102);
      v_.add_bos = v_.add_eos = true;
    } else {
      refuse(fmt::format(
          "it is of the kind '{}'; quern knows gpt2 (bytes), llama, t5 (SentencePiece), bert and gemma4",
          v_.model));
    }
  }

  void read_token(Token& token, const char* name) const {
    const auto number = from_.integer(key(name));
    if (!number) return;
    if (*number < 0 || *number >= static_cast<int64_t>(v_.texts.size())) {
      if (*number == -1 || *number == int64_t{UINT32_MAX}) return;  // there is none
      refuse(fmt::format("{} is {}, and there are {} tokens", name, *number, v_.texts.size()));
    }
    token = static_cast<Token>(*number);
  }

  void read_numbers() {
    read_token(v_.bos, "bos_token_id");
    read_token(v_.eos, "eos_token_id");
    read_token(v_.unknown, "unknown_token_id");
    read_token(v_.separator, "seperator_token_id");  // files spell it so
    read_token(v_.separator, "separator_token_id");
    read_token(v_.padding, "padding_token_id");
    if (v_.model == "bert") {
      read_token(v_.bos, "cls_token_id");
      v_.eos = v_.separator;
    }
    v_.add_bos = from_.boolean(key("add_bos_token")).value_or(v_.add_bos);
    v_.add_eos = from_.boolean(key("add_eos_token")).value_or(v_.add_eos);
    v_.add_space_prefix = from_.boolean(key("add_space_prefix")).value_or(v_.add_space_prefix);
    v_.remove_extra_spaces = from_.boolean(key("remove_extra_whitespaces")).value_or(false);
    // Phi-3 was trained so, and its files do not say it.
    v_.strip_after_control = v_.model == "llama" && from_.text("general.architecture").value_or("") == "phi3";
  }

  void find_ends() {
    const auto add = [&](Token token) {
      if (token != kNoToken && std::ranges::find(v_.ends, token) == v_.ends.end()) v_.ends.push_back(token);
    };
    add(v_.eos);
    for (const char* name : {"eot_token_id", "eom_token_id"}) {
      Token token = kNoToken;
      read_token(token, name);
      add(token);
    }
    for (const std::string_view text : kEnds) {
      const Token token = v_.find(text);
      if (token == kNoToken) continue;
      add(token);
      v_.kinds[static_cast<size_t>(token)] = TokenKind::control;  // some files have it as an ordinary one
    }
  }

  const Metadata& from_;
  Vocabulary v_;
};

}  // namespace

Token Vocabulary::find(std::string_view text) const {
  const auto found = by_text.find(text);
  return found == by_text.end() ? kNoToken : found->second;
}

Vocabulary vocabulary_of(const Metadata& metadata) { return VocabularyReader(metadata).read(); }

}  // namespace quern::llm
