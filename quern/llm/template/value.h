// The values of templates: those of Python that templates see. They live as long as the Memory they were made
// in, which says no when a template makes too much.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/base/error.h"

namespace quern::llm {

// What is wrong with a template, or with what it is given. The text has the line.
class TemplateError : public Error {
 public:
  using Error::Error;
};

enum class ValueKind : uint8_t {
  undefined,
  none,
  boolean,
  integer,
  floating,
  text,
  list,
  tuple,
  dict,
  name_space,
  loop,
  function
};

struct Value;
struct List;
struct Dict;
struct Loop;
struct Function;

// A handle. Texts, lists and dictionaries are shared by all copies of it.
struct Value {
  ValueKind kind = ValueKind::none;
  union {
    bool boolean;
    int64_t integer = 0;
    double floating;
    const std::string* text;  // of undefined: what is not defined, or null
    List* list;               // and tuples
    Dict* dict;               // and namespaces
    Loop* loop;
    const Function* function;
  };

  static Value of(bool value);
  static Value of(int64_t value);
  static Value of(double value);

  bool is(ValueKind k) const { return kind == k; }
  bool is_text() const { return kind == ValueKind::text; }
  bool is_list() const { return kind == ValueKind::list || kind == ValueKind::tuple; }
  bool is_number() const {
    return kind == ValueKind::integer || kind == ValueKind::floating || kind == ValueKind::boolean;
  }
  bool is_undefined() const { return kind == ValueKind::undefined; }
};

struct List {
  std::vector<Value> items;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in the order in which they came
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
};

struct TemplateLimits {
  int64_t steps = 10'000'000;          // nodes that are evaluated
  int64_t bytes = int64_t{256} << 20;  // of all values that are made, output included
  int64_t output = int64_t{64} << 20;
  int depth = 1000;  // of calls and of nested expressions
};

class Memory {
 public:
  explicit Memory(const TemplateLimits& limits) : limits_(limits) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Value text(std::string value);
  Value undefined(std::string_view name);
  Value list(std::vector<Value> items, ValueKind kind = ValueKind::list);
  Value dict(std::vector<std::pair<Value, Value>> entries = {}, ValueKind kind = ValueKind::dict);
  void set(Dict& dict, const Value& key, const Value& value);
  void append(List& list, const Value& value);
  void count_bytes(size_t bytes);  // a TemplateError if they are too many

 private:
  TemplateLimits limits_;
  int64_t bytes_ = 0;
  std::deque<std::string> texts_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
};

const char* kind_name(const Value& value);  // as Python calls it
bool is_true(const Value& value);
bool equal(const Value& a, const Value& b);
// -1, 0 or 1; a TemplateError for values that have no order.
int compare(const Value& a, const Value& b);
double number_of(const Value& value);
std::string text_of(const Value& value);  // str()
std::string repr_of(const Value& value);
std::string float_text(double value);  // as Python writes it

struct JsonStyle {
  std::optional<int64_t> indent = {};
  std::string between = ", ", after_key = ": ";
  bool sort_keys = false, ascii = false;
};
std::string json_of(const Value& value, const JsonStyle& style);
// A TemplateError for text that is no JSON.
Value parse_json(std::string_view json, Memory& memory);

// Texts as characters, each of several bytes.
size_t character_count(std::string_view text);
std::vector<std::string_view> characters_of(std::string_view text);
bool is_space_character(char32_t code);

}  // namespace quern::llm
