// Templates as trees.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "quern/llm/template/value.h"

namespace quern::llm {

enum class ExpressionKind : uint8_t {
  constant,
  name,
  attribute,
  item,
  slice,
  call,
  filter,
  test,
  negate,
  plus,
  logical_not,
  logical_and,
  logical_or,
  binary,
  comparison,
  conditional,
  list,
  tuple,
  dict,
  named_argument
};

struct Expression {
  ExpressionKind kind;
  int line = 0;
  Value constant = {};
  std::string text = {};  // a name, the sign of an operation, the name of a filter or test
  std::vector<const Expression*> parts =
      {};                               // of a slice: what is sliced, begin, end, step (null if not given)
  std::vector<std::string> signs = {};  // of a comparison
  bool negated = false;                 // of a test
};

enum class StatementKind : uint8_t {
  text,
  output,
  set,
  set_block,
  conditional,
  loop,
  macro,
  call,
  filter,
  leave,
  next
};

struct Statement {
  StatementKind kind;
  int line = 0;
  std::string text = {};               // plain text; the name of a macro
  const Expression* target = nullptr;  // of set and of loops
  const Expression* value =
      nullptr;  // printed, set, looped over, called; the filters of a block around `nothing`
  const Expression* condition = nullptr;  // of a loop, which only takes the items for which it is true
  bool recursive = false;
  std::vector<std::string> parameters = {};
  std::vector<const Expression*> defaults = {};  // of the last parameters
  // Of a condition: pairs of these, and what is done. An else has no condition.
  std::vector<const Expression*> conditions = {};
  std::vector<std::vector<const Statement*>> bodies = {};
};

// Owns all of a template's nodes. There is one that stands for the text of a block before its filters.
struct SyntaxTree {
  explicit SyntaxTree(std::string source);  // a TemplateError says what is not understood, and where
  SyntaxTree(const SyntaxTree&) = delete;
  SyntaxTree& operator=(const SyntaxTree&) = delete;

  std::string source;
  Memory memory;
  std::deque<Expression> expressions;
  std::deque<Statement> statements;
  std::vector<const Statement*> body;
};

// The name of the variable that holds a block's text while its filters run.
inline constexpr std::string_view kBlockText = " block";

}  // namespace quern::llm
