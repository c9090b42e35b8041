#include "quern/ir/text/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace quern {
namespace {

constexpr size_t kLongestNumber = 400;  // characters: an honest one has fewer than 30
constexpr size_t kShown = 40;           // of a token in a message

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word_part(char c) { return is_letter(c) || is_digit(c); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

constexpr std::string_view kSigns[] = {"//", "<<", ">>", "==", "!=", "<=", ">=", "..", "+", "-", "*",
                                       "/",  "%",  "&",  "|",  "^",  "<",  ">",  "!",  "~", "=", "(",
                                       ")",  "[",  "]",  "{",  "}",  ",",  ";",  ":",  "@", "$"};

std::string shown(std::string_view text) {
  std::string result = in_quotes(text.substr(0, kShown));
  result.front() = result.back() = '\'';
  return text.size() > kShown ? result + "..." : result;
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

size_t Lexer::while_in(size_t from, bool (*belongs)(char)) const {
  while (from < text_.size() && belongs(text_[from])) from++;
  return from;
}

Token Lexer::next() {
  Token scanned = scan();
  return std::exchange(token_, scanned);
}

Token Lexer::scan() {
  size_t at = position_;
  auto token = [&](Token::Kind kind, size_t end) {
    position_ = end;
    return Token{kind, text_.substr(at, end - at), at};
  };
  for (bool more = true; more;) {
    at = while_in(at, is_space);
    if (peek(at) == '#') at = std::min(text_.find('\n', at), text_.size());
    more = peek(at) == '\n' && brackets_ > 0;
    if (more) at++;
  }
  if (at == text_.size()) return token(Token::Kind::End, at);
  const char c = text_[at];
  if (c == '\n') return token(Token::Kind::Newline, at + 1);
  if (is_letter(c)) return token(Token::Kind::Word, while_in(at, is_word_part));
  if (is_digit(c)) {
    size_t end = while_in(at, is_digit);
    if (peek(end) == '.' && is_digit(peek(end + 1))) end = while_in(end + 1, is_digit);
    if (peek(end) == 'e' || peek(end) == 'E') {
      const size_t exponent = end + (peek(end + 1) == '-' || peek(end + 1) == '+' ? 2 : 1);
      if (is_digit(peek(exponent))) end = while_in(exponent, is_digit);
    }
    if (end - at > kLongestNumber) fail(at, fmt::format("a number of {} characters is too long", end - at));
    return token(Token::Kind::Number, end);
  }
  if (c == '"') {
    size_t end = at + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (peek(end) != '"') fail(at, "this text has no closing '\"'");
    return token(Token::Kind::Text, end + 1);
  }
  for (const std::string_view sign : kSigns) {
    if (!text_.substr(at).starts_with(sign)) continue;
    if (sign == "(" || sign == "[" || sign == "{") brackets_++;
    if ((sign == ")" || sign == "]" || sign == "}") && brackets_ > 0) brackets_--;
    return token(Token::Kind::Sign, at + sign.size());
  }
  fail(at, fmt::format("there is no use for {} here", shown(text_.substr(at, 1))));
}

bool Lexer::accept(std::string_view sign) {
  if (!token_.is(sign)) return false;
  next();
  return true;
}

void Lexer::expect(std::string_view sign, std::string_view where) {
  if (!accept(sign)) expected(fmt::format("'{}' {}", sign, where));
}

DType Lexer::dtype() {
  const size_t at = while_in(position_, is_space);
  size_t end = while_in(at, is_word_part);
  if (peek(end) == '*') {
    end++;
    if (peek(end) == '[') {
      end = while_in(end + 1, is_digit);
      if (peek(end) == ']') end++;
    }
    // A name of a space belongs to the pointer, any other word behind '@' is a tag.
    const size_t word = while_in(end + 1, is_word_part);
    if (peek(end) == '@')
      for (const AddrSpace space : {AddrSpace::GLOBAL, AddrSpace::LOCAL, AddrSpace::REG})
        if (text_.substr(end + 1, word - end - 1) == name(space)) {
          end = word;
          break;
        }
  }
  if (end == at) {
    next();
    expected("a dtype");
  }
  const std::string_view text = text_.substr(at, end - at);
  if (text.size() > 2 * kShown) fail(at, fmt::format("{} is not a dtype", shown(text)));
  const DType found = here(at, [&] { return DType::parse(text); });
  position_ = end;
  next();
  return found;
}

std::string Lexer::string() {
  if (token_.kind != Token::Kind::Text) expected("a text in quotes");
  const std::string_view body = token_.text.substr(1, token_.text.size() - 2);
  std::string result;
  for (size_t i = 0; i < body.size(); i++) {
    if (body[i] != '\\') {
      result += body[i];
      continue;
    }
    const char c = body[++i];  // a backslash is never the last: it would have escaped the closing quote
    if (c == 'x') {
      const int high = i + 2 < body.size() ? hex_digit(body[i + 1]) : -1;
      const int low = i + 2 < body.size() ? hex_digit(body[i + 2]) : -1;
      if (high < 0 || low < 0) fail(token_.at + i, "\\x needs two hexadecimal digits");
      result += static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == 'n') {
      result += '\n';
    } else if (c == '"' || c == '\\') {
      result += c;
    } else {
      fail(token_.at + i,
           fmt::format(R"(\{} is not an escape; there are \n, \", \\ and \x00)", shown({&c, 1})));
    }
  }
  next();
  return result;
}

bool Lexer::at_literal() const {
  if (token_.kind == Token::Kind::Number) return true;
  if (token_.kind != Token::Kind::Word) return false;
  static constexpr std::string_view words[] = {"true", "false", "invalid", "nan", "inf"};
  return std::ranges::find(words, token_.text) != std::end(words);
}

std::string Lexer::literal() {
  std::string text = accept("-") ? "-" : "";
  if (!at_literal()) expected("a number");
  return text.append(next().text);
}

int64_t Lexer::integer() {
  const size_t at = token_.at;
  std::string text = accept("-") ? "-" : "";
  if (token_.kind != Token::Kind::Number) expected("an integer");
  text += next().text;
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end) fail(at, fmt::format("{} is not an integer", shown(text)));
  if (error != std::errc()) fail(at, fmt::format("{} does not fit in 64 bits", shown(text)));
  return value;
}

void Lexer::fail(size_t at, const std::string& reason) const {
  const std::string_view before = text_.substr(0, at);
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  throw ParseError(static_cast<int>(line), static_cast<int>(at - start + 1), reason);
}

void Lexer::expected(std::string_view what) const {
  const std::string found = token_.kind == Token::Kind::End       ? "the end of the text"
                            : token_.kind == Token::Kind::Newline ? "the end of the line"
                                                                  : shown(token_.text);
  fail(fmt::format("expected {}, found {}", what, found));
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (c == '\n')
      result += "\\n";
    else if (c < ' ' || c > '~')
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + '"';
}

}  // namespace quern
