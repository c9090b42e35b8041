#include "quern/llm/tokenizer/regex.h"

#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "quern/base/error.h"

namespace quern::llm {
namespace {

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text = {};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());  // NOLINT: bytes are characters
}

const PCRE2_UCHAR* units_of(std::string_view text) {
  // PCRE2 10.42 does not take a null pointer for an empty text.
  return text.empty() ? reinterpret_cast<const PCRE2_UCHAR*>("")  // NOLINT: bytes are characters
                      : reinterpret_cast<const PCRE2_UCHAR*>(text.data());
}

}  // namespace

struct Regex::Code {
  pcre2_code* compiled;
  explicit Code(pcre2_code* code) : compiled(code) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const compiled =
      pcre2_compile(units_of(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF,
                    &error, &at, nullptr);
  if (compiled == nullptr)
    throw ValueError(
        fmt::format("the regular expression \"{}\" is wrong at {}: {}", pattern, at, pcre2_message(error)));
  code_ = std::make_shared<Code>(compiled);
  // Where there is no JIT, the interpreter of PCRE2 does it.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
}

template <class Between, class Match>
void Regex::each_match(std::string_view text, const Between& between, const Match& match) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(
      pcre2_match_data_create_from_pattern(code_->compiled, nullptr));
  if (data == nullptr) throw MemoryError("no memory for a match of a regular expression");
  size_t done = 0, at = 0;  // what was given away, and where the next match is looked for
  while (at < text.size()) {
    int found = pcre2_match(code_->compiled, units_of(text), text.size(), at, 0, data.get(), nullptr);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found =
          pcre2_match(code_->compiled, units_of(text), text.size(), at, PCRE2_NO_JIT, data.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) throw Error("a regular expression cannot be matched: " + pcre2_message(found));
    const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(data.get());
    if (bounds[1] == bounds[0]) {
      at = bounds[1] + 1;  // an expression that matches nothing may match more further on
      while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) at++;
      continue;
    }
    if (bounds[0] > done) between(text.substr(done, bounds[0] - done));
    match(text.substr(bounds[0], bounds[1] - bounds[0]));
    done = at = bounds[1];
  }
  if (done < text.size()) between(text.substr(done));
}

void Regex::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const auto append = [&](std::string_view piece) { pieces.push_back(piece); };
  each_match(text, append, append);
}

void Regex::find_all(std::string_view text, std::vector<std::string_view>& matches) const {
  each_match(text, [](std::string_view) {}, [&](std::string_view piece) { matches.push_back(piece); });
}

std::vector<std::string_view> split_by(std::span<const Regex> expressions, std::string_view text) {
  std::vector<std::string_view> pieces, next;
  if (!text.empty()) pieces.push_back(text);
  for (const Regex& expression : expressions) {
    next.clear();
    for (const std::string_view piece : pieces) expression.split(piece, next);
    pieces.swap(next);
  }
  return pieces;
}

}  // namespace quern::llm
