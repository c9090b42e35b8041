#include "quern/llm/template/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "quern/llm/template/value.h"
#include "quern/llm/tokenizer/utf8.h"

namespace quern::llm {
namespace {

constexpr std::array<std::string_view, 8> kTwoSigns = {"**", "//", "==", "!=", ">=", "<=", "&&", "||"};
constexpr std::string_view kOneSign = "+-*/%~=<>()[]{},.:|;";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class TemplateLexer {
 public:
  explicit TemplateLexer(std::string_view source) : source_(source) {}

  std::vector<Word> words() {
    while (at_ < source_.size()) text();
    words_.push_back({WordKind::end, line_, "the end"});
    return std::move(words_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw TemplateError(fmt::format("line {}: {}", line_, why));
  }
  bool begins(std::string_view what) const { return source_.substr(at_).starts_with(what); }
  void advance(size_t count) {
    line_ += static_cast<int>(std::ranges::count(source_.substr(at_, count), '\n'));
    at_ += count;
  }

  // Up to the next tag, and the tag.
  void text() {
    const size_t begin = at_;
    size_t tag = at_;
    while (tag < source_.size()) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos) tag = source_.size();
      if (tag + 1 < source_.size() &&
          (source_[tag + 1] == '{' || source_[tag + 1] == '%' || source_[tag + 1] == '#'))
        break;
      if (tag < source_.size()) tag++;
    }
    std::string_view plain = source_.substr(begin, tag - begin);
    const char kind = tag < source_.size() ? source_[tag + 1] : ' ';
    const char mark = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    std::string_view kept = plain;
    if (strip_left_) {
      while (!kept.empty() && is_blank(kept.front())) kept.remove_prefix(1);
    } else if (trim_line_ && kept.starts_with('\n')) {
      kept.remove_prefix(1);
    } else if (trim_line_ && kept.starts_with("\r\n")) {
      kept.remove_prefix(2);
    }
    const bool tagged = kind != ' ';
    if (tagged && mark == '-') {
      while (!kept.empty() && is_blank(kept.back())) kept.remove_suffix(1);
    } else if ((kind == '%' || kind == '#') && mark != '+') {
      size_t blanks = plain.size();
      while (blanks > 0 && (plain[blanks - 1] == ' ' || plain[blanks - 1] == '\t')) blanks--;
      // From the beginning of a line on there are only blanks.
      const bool at_line = blanks > 0 ? plain[blanks - 1] == '\n' : begin == 0 || source_[begin - 1] == '\n';
      if (at_line) kept = kept.substr(0, kept.size() - std::min(kept.size(), plain.size() - blanks));
    }
    if (!kept.empty()) words_.push_back({WordKind::text, line_, std::string(kept)});
    advance(tag - begin);
    strip_left_ = trim_line_ = false;
    if (kind == '#') comment();
    if (kind == '%' || kind == '{') expression(kind);
  }

  void comment() {
    const size_t left = source_.size() - at_ - 2;
    if (left == 0 || (left == 1 && source_.back() == '-')) return advance(left + 2);  // as Jinja has it
    const size_t end = source_.find("#}", at_ + 2);
    if (end == std::string_view::npos) refuse("a comment does not end");
    strip_left_ = end > at_ + 2 && source_[end - 1] == '-';
    trim_line_ = !(end > at_ + 2 && source_[end - 1] == '+');
    advance(end + 2 - at_);
  }

  void expression(char kind) {
    const bool block = kind == '%';
    words_.push_back({block ? WordKind::begin_block : WordKind::begin_output, line_, block ? "{%" : "{{"});
    advance(2);
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) advance(1);
    const size_t first = words_.size();
    std::string open;  // brackets, so that "}}" of a dictionary in a dictionary ends nothing
    for (;;) {
      while (at_ < source_.size() && is_blank(source_[at_])) advance(1);
      if (at_ == source_.size()) refuse(block ? "a block does not end" : "an output does not end");
      const std::string_view close = block ? "%}" : "}}";
      if (open.empty()) {
        const bool minus = source_[at_] == '-' && source_.substr(at_ + 1).starts_with(close);
        const bool plus = block && source_[at_] == '+' && source_.substr(at_ + 1).starts_with(close);
        if (minus || plus || begins(close)) {
          advance(minus || plus ? 3 : 2);
          strip_left_ = minus;
          trim_line_ = block && !plus;
          break;
        }
      }
      word(open);
    }
    words_.push_back({block ? WordKind::end_block : WordKind::end_output, line_, block ? "%}" : "}}"});
    if (block && words_.size() == first + 2 && words_[first].text == "raw" &&
        words_[first].kind == WordKind::name)
      raw(first - 1);
  }

  // What stands between {% raw %} and {% endraw %} is text.
  void raw(size_t first) {
    words_.resize(first);
    size_t end = at_;
    for (;; end++) {
      end = source_.find("{%", end);
      if (end == std::string_view::npos) refuse("{% raw %} does not end");
      size_t at = end + 2;
      const bool minus = at < source_.size() && source_[at] == '-';
      if (minus || (at < source_.size() && source_[at] == '+')) at++;
      while (at < source_.size() && is_blank(source_[at])) at++;
      if (!source_.substr(at).starts_with("endraw")) continue;
      at += 6;
      while (at < source_.size() && is_blank(source_[at])) at++;
      const bool strip_after = at < source_.size() && source_[at] == '-';
      if (strip_after) at++;
      if (!source_.substr(at).starts_with("%}")) continue;
      std::string_view text = source_.substr(at_, end - at_);
      if (strip_left_)
        while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
      else if (text.starts_with('\n'))
        text.remove_prefix(1);
      if (minus) {
        while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
      } else {
        size_t blanks = text.size();
        while (blanks > 0 && (text[blanks - 1] == ' ' || text[blanks - 1] == '\t')) blanks--;
        if (blanks > 0 && text[blanks - 1] == '\n') text = text.substr(0, blanks);
      }
      if (!text.empty()) words_.push_back({WordKind::text, line_, std::string(text)});
      advance(at + 2 - at_);
      strip_left_ = strip_after;
      trim_line_ = true;
      return;
    }
  }

  void word(std::string& open) {
    const char c = source_[at_];
    size_t end = at_;
    if (is_letter(c)) {
      while (end < source_.size() && (is_letter(source_[end]) || is_digit(source_[end]))) end++;
      push(WordKind::name, end);
    } else if (is_digit(c)) {
      number();
    } else if (c == '"' || c == '\'') {
      quoted(c);
    } else {
      for (const std::string_view sign : kTwoSigns)
        if (begins(sign)) {
          push(WordKind::sign, at_ + 2);
          return;
        }
      if (kOneSign.find(c) == std::string_view::npos)
        refuse(fmt::format("the character '{}' is not understood", c));
      if (c == '(' || c == '[' || c == '{') open += c;
      if (c == ')' || c == ']' || c == '}') {
        const char begin = c == ')' ? '(' : c == ']' ? '[' : '{';
        if (open.empty() || open.back() != begin) refuse(fmt::format("'{}' closes nothing", c));
        open.pop_back();
      }
      push(WordKind::sign, at_ + 1);
    }
  }

  void push(WordKind kind, size_t end) {
    words_.push_back({kind, line_, std::string(source_.substr(at_, end - at_))});
    advance(end - at_);
  }

  void number() {
    size_t end = at_;
    bool is_float = false;
    const auto digits = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) end++;
    };
    digits();
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      is_float = true;
      end++;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) exponent++;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        is_float = true;
        end = exponent;
        digits();
      }
    }
    std::string text(source_.substr(at_, end - at_));
    std::erase(text, '_');
    words_.push_back({is_float ? WordKind::floating : WordKind::integer, line_, text});
    advance(end - at_);
  }

  void quoted(char quote) {
    std::string text;
    size_t at = at_ + 1;
    const auto hex = [&](size_t digits) {
      if (at + digits >= source_.size()) refuse("a text does not end");
      char32_t code = 0;
      for (size_t i = 0; i < digits; i++) {
        const char d = source_[at + 1 + i];
        const int value = is_digit(d)            ? d - '0'
                          : d >= 'a' && d <= 'f' ? d - 'a' + 10
                          : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                                 : -1;
        if (value < 0) refuse(fmt::format("'{}' is no hexadecimal digit", d));
        code = code * 16 + static_cast<char32_t>(value);
      }
      at += digits;
      append_character(text, code > 0x10FFFF ? kReplacementCharacter : code);
    };
    for (;; at++) {
      if (at >= source_.size()) refuse("a text does not end");
      const char c = source_[at];
      if (c == quote) break;
      if (c != '\\') {
        text += c;
        continue;
      }
      if (++at >= source_.size()) refuse("a text does not end");
      switch (source_[at]) {
        case 'n': text += '\n'; break;
        case 't': text += '\t'; break;
        case 'r': text += '\r'; break;
        case 'b': text += '\b'; break;
        case 'f': text += '\f'; break;
        case 'v': text += '\v'; break;
        case 'a': text += '\a'; break;
        case '0': text += '\0'; break;
        case '\n': break;
        case '\\':
        case '\'':
        case '"': text += source_[at]; break;
        case 'x': hex(2); break;
        case 'u': hex(4); break;
        case 'U': hex(8); break;
        default: text += '\\', text += source_[at];
      }
    }
    words_.push_back({WordKind::quoted, line_, text});
    advance(at + 1 - at_);
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool strip_left_ = false, trim_line_ = false;  // what the tag before asks for
  std::vector<Word> words_;
};

}  // namespace

std::vector<Word> template_words(const std::string& source) { return TemplateLexer(source).words(); }

}  // namespace quern::llm
