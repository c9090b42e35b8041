#include "quern/llm/template/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "quern/llm/tokenizer/utf8.h"

namespace quern::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostNesting = 100;  // of values that are compared, printed or read

void check_nesting(int depth) {
  if (depth > kMostNesting)
    throw TemplateError(fmt::format("a value is nested more than {} deep", kMostNesting));
}

bool equal_within(const Value& a, const Value& b, int depth) {
  check_nesting(depth);
  if (a.is_number() && b.is_number()) {
    if (a.is(ValueKind::floating) || b.is(ValueKind::floating)) return number_of(a) == number_of(b);
    return (a.is(ValueKind::boolean) ? int64_t{a.boolean} : a.integer) ==
           (b.is(ValueKind::boolean) ? int64_t{b.boolean} : b.integer);
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case ValueKind::text: return *a.text == *b.text;
    case ValueKind::list:
    case ValueKind::tuple:
      return std::ranges::equal(a.list->items, b.list->items, [&](const Value& x, const Value& y) {
        return equal_within(x, y, depth + 1);
      });
    case ValueKind::dict:
      if (a.dict->entries.size() != b.dict->entries.size()) return false;
      return std::ranges::all_of(a.dict->entries, [&](const auto& entry) {
        const Value* other = b.dict->find(entry.first);
        return other != nullptr && equal_within(entry.second, *other, depth + 1);
      });
    case ValueKind::name_space: return a.dict == b.dict;
    case ValueKind::loop: return a.loop == b.loop;
    case ValueKind::function: return a.function == b.function;
    default: return true;  // none, undefined
  }
}

void append_repr(std::string& out, const Value& value, int depth);

void append_text_repr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos,
             has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out += quote;
  for (const char c : text) {
    if (c == quote || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    else
      out += c;
  }
  out += quote;
}

void append_repr(std::string& out, const Value& value, int depth) {
  check_nesting(depth);
  switch (value.kind) {
    case ValueKind::text: append_text_repr(out, *value.text); break;
    case ValueKind::list:
    case ValueKind::tuple: {
      const bool is_tuple = value.is(ValueKind::tuple);
      out += is_tuple ? '(' : '[';
      for (size_t i = 0; i < value.list->items.size(); i++) {
        if (i > 0) out += ", ";
        append_repr(out, value.list->items[i], depth + 1);
      }
      if (is_tuple && value.list->items.size() == 1) out += ',';
      out += is_tuple ? ')' : ']';
      break;
    }
    case ValueKind::dict: {
      out += '{';
      bool first = true;
      for (const auto& [key, entry] : value.dict->entries) {
        if (!first) out += ", ";
        first = false;
        append_repr(out, key, depth + 1);
        out += ": ";
        append_repr(out, entry, depth + 1);
      }
      out += '}';
      break;
    }
    case ValueKind::undefined: out += "Undefined"; break;
    default: out += text_of(value);
  }
}

void append_json_text(std::string& out, std::string_view text, bool ascii) {
  out += '"';
  while (!text.empty()) {
    const Character c = first_character(text);
    const char byte = text[0];
    if (byte == '"' || byte == '\\')
      out += '\\', out += byte;
    else if (byte == '\n')
      out += "\\n";
    else if (byte == '\r')
      out += "\\r";
    else if (byte == '\t')
      out += "\\t";
    else if (byte == '\b')
      out += "\\b";
    else if (byte == '\f')
      out += "\\f";
    else if (c.code < 0x20 || (ascii && c.code > 0x7E && c.code < 0x10000))
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c.code));
    else if (ascii && c.code >= 0x10000)
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((static_cast<uint32_t>(c.code) - 0x10000) >> 10),
                         0xDC00 + (static_cast<uint32_t>(c.code) & 0x3FF));
    else
      out += text.substr(0, c.length);
    text.remove_prefix(c.length);
  }
  out += '"';
}

std::string json_key(const Value& key) {
  switch (key.kind) {
    case ValueKind::text: return *key.text;
    case ValueKind::none: return "null";
    case ValueKind::boolean: return key.boolean ? "true" : "false";
    case ValueKind::integer:
    case ValueKind::floating: return text_of(key);
    default: throw TemplateError(fmt::format("tojson: a key is a {}", kind_name(key)));
  }
}

void append_json(std::string& out, const Value& value, const JsonStyle& style, int depth) {
  check_nesting(depth);
  const auto new_line = [&](int levels) {
    if (style.indent) out += '\n' + std::string(static_cast<size_t>(*style.indent * levels), ' ');
  };
  switch (value.kind) {
    case ValueKind::none: out += "null"; break;
    case ValueKind::boolean: out += value.boolean ? "true" : "false"; break;
    case ValueKind::floating:
      out += std::isnan(value.floating)   ? "NaN"
             : std::isinf(value.floating) ? (value.floating < 0 ? "-Infinity" : "Infinity")
                                          : float_text(value.floating);
      break;
    case ValueKind::integer: out += text_of(value); break;
    case ValueKind::text: append_json_text(out, *value.text, style.ascii); break;
    case ValueKind::list:
    case ValueKind::tuple: {
      const auto& items = value.list->items;
      out += '[';
      for (size_t i = 0; i < items.size(); i++) {
        if (i > 0) out += style.between;
        new_line(depth + 1);
        append_json(out, items[i], style, depth + 1);
      }
      if (!items.empty()) new_line(depth);
      out += ']';
      break;
    }
    case ValueKind::dict: {
      std::vector<std::pair<std::string, const Value*>> entries;
      for (const auto& [key, entry] : value.dict->entries) entries.emplace_back(json_key(key), &entry);
      if (style.sort_keys)
        std::ranges::stable_sort(entries, {}, &std::pair<std::string, const Value*>::first);
      out += '{';
      for (size_t i = 0; i < entries.size(); i++) {
        if (i > 0) out += style.between;
        new_line(depth + 1);
        append_json_text(out, entries[i].first, style.ascii);
        out += style.after_key;
        append_json(out, *entries[i].second, style, depth + 1);
      }
      if (!entries.empty()) new_line(depth);
      out += '}';
      break;
    }
    default: throw TemplateError(fmt::format("tojson: a value of kind {} has no JSON", kind_name(value)));
  }
}

Value from_json(const Json& json, Memory& memory, int depth) {
  check_nesting(depth);
  switch (json.type()) {
    case Json::value_t::null: return {};
    case Json::value_t::boolean: return Value::of(json.get<bool>());
    case Json::value_t::number_integer: return Value::of(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      return number <= uint64_t{INT64_MAX} ? Value::of(static_cast<int64_t>(number))
                                           : Value::of(static_cast<double>(number));
    }
    case Json::value_t::number_float: return Value::of(json.get<double>());
    case Json::value_t::string: return memory.text(json.get<std::string>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& part : json) items.push_back(from_json(part, memory, depth + 1));
      return memory.list(std::move(items));
    }
    default: {
      const Value dict = memory.dict();
      for (const auto& [key, part] : json.items())
        dict.dict->entries.emplace_back(memory.text(key), from_json(part, memory, depth + 1));
      memory.count_bytes(json.size() * sizeof(Value) * 2);
      return dict;
    }
  }
}

}  // namespace

Value Value::of(bool value) {
  Value v;
  v.kind = ValueKind::boolean;
  v.boolean = value;
  return v;
}
Value Value::of(int64_t value) {
  Value v;
  v.kind = ValueKind::integer;
  v.integer = value;
  return v;
}
Value Value::of(double value) {
  Value v;
  v.kind = ValueKind::floating;
  v.floating = value;
  return v;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (name.is_text() && *name.text == key) return &value;
  return nullptr;
}
const Value* Dict::find(const Value& key) const {
  for (const auto& [name, value] : entries)
    if (equal(name, key)) return &value;
  return nullptr;
}

Value Memory::text(std::string value) {
  count_bytes(value.size() + sizeof(std::string));
  Value v;
  v.kind = ValueKind::text;
  v.text = &texts_.emplace_back(std::move(value));
  return v;
}

Value Memory::undefined(std::string_view name) {
  Value v;
  v.kind = ValueKind::undefined;
  v.text = text(std::string(name)).text;
  return v;
}

Value Memory::list(std::vector<Value> items, ValueKind kind) {
  count_bytes(items.size() * sizeof(Value) + sizeof(List));
  Value v;
  v.kind = kind;
  v.list = &lists_.emplace_back(List{std::move(items)});
  return v;
}

Value Memory::dict(std::vector<std::pair<Value, Value>> entries, ValueKind kind) {
  count_bytes(entries.size() * sizeof(Value) * 2 + sizeof(Dict));
  Value v;
  v.kind = kind;
  v.dict = &dicts_.emplace_back(Dict{std::move(entries)});
  return v;
}

void Memory::set(Dict& dict, const Value& key, const Value& value) {
  for (auto& [name, old] : dict.entries) {
    if (!equal(name, key)) continue;
    old = value;
    return;
  }
  count_bytes(sizeof(Value) * 2);
  dict.entries.emplace_back(key, value);
}

void Memory::append(List& list, const Value& value) {
  count_bytes(sizeof(Value));
  list.items.push_back(value);
}

void Memory::count_bytes(size_t bytes) {
  if (bytes > static_cast<size_t>(limits_.bytes) || (bytes_ += static_cast<int64_t>(bytes)) > limits_.bytes)
    throw TemplateError(fmt::format("it makes more than {} bytes of values", limits_.bytes));
}

const char* kind_name(const Value& value) {
  static constexpr std::array<const char*, 12> kNames = {"undefined", "none",      "bool", "int",
                                                         "float",     "str",       "list", "tuple",
                                                         "dict",      "namespace", "loop", "function"};
  return kNames[static_cast<size_t>(value.kind)];
}

bool is_true(const Value& value) {
  switch (value.kind) {
    case ValueKind::undefined:
    case ValueKind::none: return false;
    case ValueKind::boolean: return value.boolean;
    case ValueKind::integer: return value.integer != 0;
    case ValueKind::floating: return value.floating != 0;
    case ValueKind::text: return !value.text->empty();
    case ValueKind::list:
    case ValueKind::tuple: return !value.list->items.empty();
    case ValueKind::dict: return !value.dict->entries.empty();
    default: return true;
  }
}

bool equal(const Value& a, const Value& b) { return equal_within(a, b, 0); }

double number_of(const Value& value) {
  switch (value.kind) {
    case ValueKind::boolean: return value.boolean ? 1 : 0;
    case ValueKind::integer: return static_cast<double>(value.integer);
    case ValueKind::floating: return value.floating;
    default: throw TemplateError(fmt::format("expected a number, got a {}", kind_name(value)));
  }
}

int compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (!a.is(ValueKind::floating) && !b.is(ValueKind::floating)) {
      const int64_t x = a.is(ValueKind::boolean) ? int64_t{a.boolean} : a.integer;
      const int64_t y = b.is(ValueKind::boolean) ? int64_t{b.boolean} : b.integer;
      return x < y ? -1 : x > y ? 1 : 0;
    }
    return number_of(a) < number_of(b) ? -1 : number_of(a) > number_of(b) ? 1 : 0;
  }
  if (a.is_text() && b.is_text()) {
    const int order = a.text->compare(*b.text);
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_list() && a.kind == b.kind) {
    const auto &x = a.list->items, &y = b.list->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); i++)
      if (!equal(x[i], y[i])) {
        if (x[i].is_list()) throw TemplateError("lists in lists are not compared");
        return compare(x[i], y[i]);
      }
    return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
  }
  throw TemplateError(fmt::format("a {} and a {} have no order", kind_name(a), kind_name(b)));
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer = {};
  const double size = std::fabs(value);
  const bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer.data(), end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string text_of(const Value& value) {
  switch (value.kind) {
    case ValueKind::undefined: return "";
    case ValueKind::none: return "None";
    case ValueKind::boolean: return value.boolean ? "True" : "False";
    case ValueKind::integer: return std::to_string(value.integer);
    case ValueKind::floating: return float_text(value.floating);
    case ValueKind::text: return *value.text;
    case ValueKind::name_space: return "<Namespace>";
    case ValueKind::loop: return "<LoopContext>";
    case ValueKind::function: return "<function>";
    default: return repr_of(value);
  }
}

std::string repr_of(const Value& value) {
  std::string out;
  append_repr(out, value, 0);
  return out;
}

std::string json_of(const Value& value, const JsonStyle& style) {
  JsonStyle used = style;
  if (style.indent && style.between == ", ") used.between = ",";
  std::string out;
  append_json(out, value, used, 0);
  return out;
}

Value parse_json(std::string_view json, Memory& memory) {
  try {
    int deepest = 0;
    const auto watch = [&](int depth, Json::parse_event_t, Json&) {
      check_nesting(deepest = std::max(deepest, depth));
      return true;
    };
    return from_json(Json::parse(json, watch), memory, 0);
  } catch (const nlohmann::json::exception& e) {
    throw TemplateError(fmt::format("not JSON: {}", e.what()));
  }
}

size_t character_count(std::string_view text) { return characters_of(text).size(); }

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    all.push_back(text.substr(0, first_character(text).length));
    text.remove_prefix(all.back().size());
  }
  return all;
}

bool is_space_character(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace quern::llm
