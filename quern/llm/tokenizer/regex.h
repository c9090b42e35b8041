// Regular expressions that cut a text into pieces, compiled once by PCRE2 with its JIT.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::llm {

// A compiled expression. Copies share it; threads may use it at the same time.
class Regex {
 public:
  explicit Regex(const std::string& pattern);  // a ValueError says what is wrong with it, and where

  // Appends to `pieces` the matches in `text` and what stands between them, in order: together they are the
  // text. An empty match cuts nothing. Bytes that are no UTF-8 are matched by nothing.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;
  // The matches alone.
  void find_all(std::string_view text, std::vector<std::string_view>& matches) const;

  struct Code;

 private:
  template <class Between, class Match>
  void each_match(std::string_view text, const Between& between, const Match& match) const;
  std::shared_ptr<const Code> code_;
};

// Cuts by each expression in turn: what one made is cut further by the next.
std::vector<std::string_view> split_by(std::span<const Regex> expressions, std::string_view text);

}  // namespace quern::llm
