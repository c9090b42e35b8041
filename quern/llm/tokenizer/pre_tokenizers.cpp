#include "quern/llm/tokenizer/pre_tokenizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quern/base/error.h"

namespace quern::llm {
namespace {

// The expressions that models were trained with. Where theirs end in an alternative for what is left (|\s+),
// it is left out: what is between matches is a piece, too.
constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kSentences = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr const char* kCased = R"(\s?[\p{Lu}\p{Ll}\p{Lt}]+)";
constexpr const char* kHan = R"([\x{4e00}-\x{9fa5}\x{0800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
constexpr const char* kHanAndKana = R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
constexpr const char* kPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr const char* kPunctuationForDefault = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr const char* kDigit = R"(\p{N})";
constexpr const char* kDigits = R"(\p{N}+)";
constexpr const char* kThreeDigits = "[0-9][0-9][0-9]";

struct Row {
  std::vector<std::string_view> names;
  PreTokenizer way;
};

const std::vector<Row>& rows() {
  // clang-format off
  static const std::vector<Row> all = {
    {{"", "default"}, {.expressions = {kPunctuationForDefault, kGpt2, kDigits, kThreeDigits}}},
    {{"gpt-2", "mpt", "olmo", "jais", "phi-2", "gigachat", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de",
      "jina-v2-code", "roberta-bpe", "trillion"}, {.expressions = {kGpt2}}},
    {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"}, {.expressions = {kDigit, kGpt2}}},
    {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {.expressions = {kLlama3}, .whole_pieces = true, .add_bos = true}},
    {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {.expressions = {kLlama3}}},
    {{"qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan", "megrez"}, {.expressions = {kQwen2}}},
    {{"qwen35"}, {.expressions = {kQwen35}}},
    {{"gpt-4o", "llama4"}, {.expressions = {kGpt4o}}},
    {{"tekken"}, {.expressions = {kTekken}, .whole_pieces = true, .add_bos = true}},
    {{"deepseek-llm"}, {.expressions = {"[\r\n]", kCased, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)", kHan, kDigits}}},
    {{"deepseek-coder"}, {.expressions = {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kHan, kDigit}}},
    {{"deepseek-v3", "hunyuan-dense"}, {.expressions = {R"(\p{N}{1,3})", kHanAndKana, kDeepseek3}}},
    {{"falcon"}, {.expressions = {kPunctuation, kGpt2, kThreeDigits}}},
    {{"poro-chat", "bloom", "gpt3-finnish"}, {.expressions = {kSentences}}},
    {{"viking"}, {.expressions = {kSentences, kDigit}}},
    // Spaces are letters of this one, and its merges never cross a line.
    {{"gemma4"}, {.expressions = {R"([^\n]+|[\n]+)"}, .add_bos = true}},
  };
  // clang-format on
  return all;
}

}  // namespace

PreTokenizer pre_tokenizer_called(std::string_view name) {
  for (const Row& row : rows())
    if (std::ranges::find(row.names, name) != row.names.end()) return row.way;
  throw Error(fmt::format("the pre-tokenizer '{}' is not known; known are: {}", name,
                          fmt::join(pre_tokenizer_names(), ", ")));
}

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> all;
  for (const Row& row : rows())
    for (const std::string_view name : row.names)
      if (!name.empty()) all.push_back(name);
  return all;
}

}  // namespace quern::llm
