// Runs a template's tree.
#pragma once

#include <functional>
#include <optional>

#include "quern/llm/template/syntax.h"

namespace quern::llm {

struct NamedValues {
  std::vector<std::pair<std::string, Value>> entries;
  const Value* find(std::string_view name) const;
};

// What a call, filter or test was given, besides what it is called on.
struct CallArguments {
  std::vector<Value> values;
  NamedValues named;
  // The i-th, or the one of this name; null if there is neither.
  const Value* get(size_t i, std::string_view name) const;
};

// The variables of a block. What is not found in it is looked for around it.
struct Scope {
  Scope* around;
  std::vector<std::pair<std::string_view, Value>> variables = {};
  Value* find(std::string_view name);
  void set(std::string_view name, const Value& value);
};

struct Loop {
  const std::vector<Value>* items = nullptr;
  size_t index = 0;
  int depth = 1;
  const Statement* statement = nullptr;  // of a recursive one
  Scope* scope = nullptr;
  std::optional<Value> changed = {};
};

struct Function {
  enum class Kind : uint8_t { builtin, macro, method, caller } kind;
  std::string name;
  const Statement* macro = nullptr;
  Scope* scope = nullptr;  // in which the macro was defined
  Value self = {};         // of a method
};

class Interpreter {
 public:
  Interpreter(const SyntaxTree& tree, const TemplateLimits& limits)
      : tree_(tree), limits_(limits), memory_(limits) {}

  Memory& memory() { return memory_; }
  const TemplateLimits& limits() const { return limits_; }
  // `variables`: a dictionary.
  std::string run(const Value& variables);

  // For filters and tests that apply others.
  Value filtered(const std::string& name, const Value& value, const CallArguments& arguments);
  bool tested(const std::string& name, const Value& value, const CallArguments& arguments);
  Value attribute(const Value& object, std::string_view name);  // of an object, or undefined
  Value item(const Value& object, const Value& index);
  Value binary(const std::string& sign, const Value& left, const Value& right);
  bool contains(const Value& container, const Value& value);
  std::vector<Value> items_of(const Value& value);  // what a loop over it goes through
  void step(size_t count = 1);

 private:
  enum class Flow : uint8_t { on, leave, next };
  struct Deeper;

  Flow run_body(const std::vector<const Statement*>& body, Scope& scope);
  Flow run_statement(const Statement& s, Scope& scope);
  void run_loop(const Statement& s, Scope& scope, const Value& over, int depth);
  std::string text_of_body(const std::vector<const Statement*>& body, Scope& scope);
  void assign(const Expression& target, const Value& value, Scope& scope);
  void write(std::string_view text);

  Value evaluate(const Expression& e, Scope& scope);
  Value evaluate_at(const Expression& e, Scope& scope);
  Value lookup(std::string_view name, Scope& scope);
  CallArguments arguments_of(const Expression& e, Scope& scope);
  Value call(const Expression& e, Scope& scope);
  Value call_function(const Function& function, const CallArguments& arguments);
  Value call_macro(const Function& function, const CallArguments& arguments);
  Value builtin(const std::string& name, const CallArguments& arguments);
  Value method(const Value& object, const std::string& name, const CallArguments& arguments);
  Value slice(const Value& value, const Value& begin, const Value& end, const Value& step);
  Value function(Function made);
  Scope& new_scope(Scope* around);

  const SyntaxTree& tree_;
  TemplateLimits limits_;
  Memory memory_;
  std::deque<Scope> scopes_;
  std::deque<Loop> loops_;
  std::deque<Function> functions_;
  std::string output_;
  std::string* out_ = &output_;
  int64_t steps_ = 0, written_ = 0;
  int depth_ = 0;
};

// One of the methods of texts, lists and dictionaries; none if there is no such.
std::optional<Value> call_method(Interpreter& run, const Value& object, const std::string& name,
                                 const CallArguments& arguments);
bool has_method(const Value& object, std::string_view name);

}  // namespace quern::llm
