// Cuts IR text into tokens, one at a time, and says where an error is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "quern/base/error.h"
#include "quern/ir/node/dtype.h"

namespace quern {

struct Token {
  enum class Kind : uint8_t { End, Newline, Word, Number, Text, Sign };
  Kind kind = Kind::End;
  std::string_view text;  // as it stands there: a Text with its quotes
  size_t at = 0;          // where it begins

  bool is(std::string_view sign) const { return kind == Kind::Sign && text == sign; }
};

// Copies are bookmarks: assigning one goes back. A newline inside brackets is a space.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { next(); }

  const Token& token() const { return token_; }
  Token next();  // goes on; gives the token that was the current one
  bool accept(std::string_view sign);
  void expect(std::string_view sign, std::string_view where);  // "expected ')' after ..., found ..."

  // These read a whole item and go on behind it.
  DType dtype();            // from the current ':'
  std::string string();     // a Text, its escapes resolved
  int64_t integer();        // with a '-' or without
  std::string literal();    // a number, or true, false, invalid, nan, inf; with a '-' or without
  bool at_literal() const;  // may a literal begin here?

  [[noreturn]] void fail(const std::string& reason) const { fail(token_.at, reason); }
  [[noreturn]] void fail(size_t at, const std::string& reason) const;
  [[noreturn]] void expected(std::string_view what) const;  // "expected <what>, found <token>"

  // Calls f; what it has to complain about is said to be here.
  template <class F>
  auto here(size_t at, F f) const {
    try {
      return f();
    } catch (const ParseError&) {
      throw;
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      fail(at, error.what());
    }
  }

 private:
  Token scan();
  size_t while_in(size_t from, bool (*belongs)(char)) const;
  char peek(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  std::string_view text_;
  Token token_;
  size_t position_ = 0;  // behind the current token
  int brackets_ = 0;     // open ones
};

std::string in_quotes(std::string_view text);  // with quotes and escapes, as string() reads it

}  // namespace quern
