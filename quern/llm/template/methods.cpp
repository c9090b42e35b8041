// Methods of texts, lists and dictionaries.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quern/llm/template/interpreter.h"
#include "quern/llm/template/letters.h"

namespace quern::llm {
namespace {

constexpr std::array<std::string_view, 24> kTextMethods = {
    "strip", "lstrip", "rstrip",  "split",        "rsplit",       "splitlines", "startswith", "endswith",
    "upper", "lower",  "title",   "capitalize",   "replace",      "join",       "find",       "rfind",
    "count", "format", "isdigit", "removeprefix", "removesuffix", "index",      "isalpha",    "isspace"};
constexpr std::array<std::string_view, 6> kListMethods = {"append", "pop",    "index",
                                                          "count",  "insert", "extend"};
constexpr std::array<std::string_view, 7> kDictMethods = {"items", "keys",   "values",    "get",
                                                          "pop",   "update", "setdefault"};

std::optional<std::string> optional_text(const CallArguments& a, size_t i, std::string_view name) {
  const Value* given = a.get(i, name);
  if (given == nullptr || given->is(ValueKind::none)) return {};
  if (!given->is_text()) throw TemplateError(fmt::format("expected a str, got a {}", kind_name(*given)));
  return *given->text;
}

std::string needed_text(const CallArguments& a, size_t i, const char* method) {
  if (i >= a.values.size() || !a.values[i].is_text())
    throw TemplateError(fmt::format("{}: expected a str", method));
  return *a.values[i].text;
}

int64_t optional_integer(const CallArguments& a, size_t i, std::string_view name, int64_t otherwise) {
  const Value* given = a.get(i, name);
  if (given == nullptr) return otherwise;
  if (!given->is(ValueKind::integer))
    throw TemplateError(fmt::format("expected an int, got a {}", kind_name(*given)));
  return given->integer;
}

Value list_of(Interpreter& run, const std::vector<std::string>& texts) {
  std::vector<Value> items;
  for (const std::string& text : texts) items.push_back(run.memory().text(text));
  return run.memory().list(items);
}

// '{}', '{0}', '{name}'; a form behind ':' is not understood.
std::string formatted(Interpreter& run, std::string_view form, const CallArguments& a) {
  std::string text;
  size_t next = 0;
  for (size_t i = 0; i < form.size(); i++) {
    const char c = form[i];
    if ((c == '{' || c == '}') && i + 1 < form.size() && form[i + 1] == c) {
      text += c;
      i++;
    } else if (c == '{') {
      const size_t end = form.find('}', i);
      if (end == std::string_view::npos) throw TemplateError("format: '{' without '}'");
      const std::string_view name = form.substr(i + 1, end - i - 1);
      const Value* value = nullptr;
      const bool is_number = !name.empty() && name.size() < 6 &&
                             std::ranges::all_of(name, [](char d) { return d >= '0' && d <= '9'; });
      if (name.empty())
        value = a.get(next++, " ");
      else if (is_number)
        value = a.get(static_cast<size_t>(std::stoi(std::string(name))), " ");
      else
        value = a.named.find(name);
      if (value == nullptr) throw TemplateError(fmt::format("format: there is no '{{{}}}'", name));
      text += text_of(*value);
      run.memory().count_bytes(0);
      i = end;
    } else if (c == '}') {
      throw TemplateError("format: '}' without '{'");
    } else {
      text += c;
    }
  }
  return text;
}

// Whether it begins or ends with a text, or one of several.
bool has_end(const std::string& text, const CallArguments& a, bool begin) {
  if (a.values.size() != 1) throw TemplateError("expected a str");
  std::vector<Value> ends = {a.values[0]};
  if (a.values[0].is_list()) ends = a.values[0].list->items;
  return std::ranges::any_of(ends, [&](const Value& end) {
    if (!end.is_text()) throw TemplateError(fmt::format("expected a str, got a {}", kind_name(end)));
    return begin ? text.starts_with(*end.text) : text.ends_with(*end.text);
  });
}

int64_t found_at(std::string_view text, size_t byte) {
  return byte == std::string_view::npos ? -1 : static_cast<int64_t>(character_count(text.substr(0, byte)));
}

int64_t occurrences(std::string_view text, std::string_view of) {
  if (of.empty()) return static_cast<int64_t>(character_count(text)) + 1;
  int64_t count = 0;
  for (size_t at = text.find(of); at != std::string_view::npos; at = text.find(of, at + of.size())) count++;
  return count;
}

std::optional<Value> text_method(Interpreter& run, const std::string& text, const std::string& name,
                                 const CallArguments& a) {
  run.step(text.size() / 64);
  const auto made = [&](std::string result) { return run.memory().text(std::move(result)); };
  if (name == "strip") return made(stripped(text, optional_text(a, 0, "chars"), true, true));
  if (name == "lstrip") return made(stripped(text, optional_text(a, 0, "chars"), true, false));
  if (name == "rstrip") return made(stripped(text, optional_text(a, 0, "chars"), false, true));
  if (name == "split")
    return list_of(run, split_text(text, optional_text(a, 0, "sep"), optional_integer(a, 1, "maxsplit", -1)));
  if (name == "rsplit")
    return list_of(
        run, split_text_from_right(text, optional_text(a, 0, "sep"), optional_integer(a, 1, "maxsplit", -1)));
  if (name == "splitlines") {
    const Value* keep = a.get(0, "keepends");
    return list_of(run, lines_of(text, keep != nullptr && is_true(*keep)));
  }
  if (name == "startswith") return Value::of(has_end(text, a, true));
  if (name == "endswith") return Value::of(has_end(text, a, false));
  if (name == "upper") return made(upper_case(text));
  if (name == "lower") return made(lower_case(text));
  if (name == "title") return made(title_case(text));
  if (name == "capitalize") return made(capitalized(text));
  if (name == "replace") {
    const std::string from = needed_text(a, 0, "replace"), to = needed_text(a, 1, "replace");
    run.memory().count_bytes(static_cast<size_t>(occurrences(text, from)) * to.size());
    return made(replaced_text(text, from, to, optional_integer(a, 2, "count", -1)));
  }
  if (name == "join") {
    if (a.values.size() != 1) throw TemplateError("join: expected a list");
    std::string joined;
    bool first = true;
    for (const Value& item : run.items_of(a.values[0])) {
      if (!item.is_text())
        throw TemplateError(fmt::format("join: expected a str, got a {}", kind_name(item)));
      if (!std::exchange(first, false)) joined += text;
      joined += *item.text;
    }
    return made(joined);
  }
  if (name == "find") return Value::of(found_at(text, text.find(needed_text(a, 0, "find"))));
  if (name == "rfind") return Value::of(found_at(text, text.rfind(needed_text(a, 0, "rfind"))));
  if (name == "index") {
    const size_t at = text.find(needed_text(a, 0, "index"));
    if (at == std::string::npos) throw TemplateError("index: the text is not there");
    return Value::of(found_at(text, at));
  }
  if (name == "count") return Value::of(occurrences(text, needed_text(a, 0, "count")));
  if (name == "format") return made(formatted(run, text, a));
  if (name == "removeprefix") {
    const std::string prefix = needed_text(a, 0, "removeprefix");
    return made(text.starts_with(prefix) ? text.substr(prefix.size()) : text);
  }
  if (name == "removesuffix") {
    const std::string suffix = needed_text(a, 0, "removesuffix");
    return made(text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text);
  }
  const auto all_are = [&](const auto& is) {
    return Value::of(!text.empty() && std::ranges::all_of(characters_of(text), is));
  };
  if (name == "isdigit") return all_are([](std::string_view c) { return c[0] >= '0' && c[0] <= '9'; });
  if (name == "isalpha")
    return all_are([](std::string_view c) { return upper_case(c) != c || lower_case(c) != c; });
  if (name == "isspace") return Value::of(!text.empty() && stripped(text, std::nullopt, true, true).empty());
  return {};
}

std::optional<Value> list_method(Interpreter& run, List& list, const std::string& name,
                                 const CallArguments& a) {
  const auto count = static_cast<int64_t>(list.items.size());
  const auto one = [&]() -> const Value& {
    if (a.values.size() != 1) throw TemplateError(fmt::format("{}: expected one argument", name));
    return a.values[0];
  };
  if (name == "append") {
    run.memory().append(list, one());
    return Value();
  }
  if (name == "extend") {
    for (const Value& item : run.items_of(one())) run.memory().append(list, item);
    return Value();
  }
  if (name == "pop") {
    int64_t at = optional_integer(a, 0, "index", -1);
    if (at < 0) at += count;
    if (at < 0 || at >= count) throw TemplateError("pop: the list has no such item");
    const Value item = list.items[static_cast<size_t>(at)];
    run.step(list.items.size() / 16);
    list.items.erase(list.items.begin() + at);
    return item;
  }
  if (name == "insert") {
    if (a.values.size() != 2) throw TemplateError("insert: expected a place and a value");
    int64_t at = optional_integer(a, 0, "index", 0);
    if (at < 0) at += count;
    run.step(list.items.size() / 16);
    run.memory().count_bytes(sizeof(Value));
    list.items.insert(list.items.begin() + std::clamp<int64_t>(at, 0, count), a.values[1]);
    return Value();
  }
  run.step(list.items.size());
  if (name == "count")
    return Value::of(
        int64_t{std::ranges::count_if(list.items, [&](const Value& v) { return equal(v, one()); })});
  if (name == "index") {
    const auto found = std::ranges::find_if(list.items, [&](const Value& v) { return equal(v, one()); });
    if (found == list.items.end()) throw TemplateError("index: the value is not in the list");
    return Value::of(int64_t{found - list.items.begin()});
  }
  return {};
}

std::optional<Value> dict_method(Interpreter& run, Dict& dict, const std::string& name,
                                 const CallArguments& a) {
  run.step(dict.entries.size() / 4);
  if (name == "items" || name == "keys" || name == "values") {
    std::vector<Value> items;
    for (const auto& [key, value] : dict.entries)
      items.push_back(name == "items"  ? run.memory().list({key, value}, ValueKind::tuple)
                      : name == "keys" ? key
                                       : value);
    return run.memory().list(items);
  }
  const Value* otherwise = a.get(1, "default");
  if (name == "update") {
    for (const Value& given : a.values) {
      if (!given.is(ValueKind::dict)) throw TemplateError("update: expected a dict");
      const auto entries = given.dict->entries;
      for (const auto& [key, value] : entries) run.memory().set(dict, key, value);
    }
    for (const auto& [key, value] : a.named.entries) run.memory().set(dict, run.memory().text(key), value);
    return Value();
  }
  if (a.values.empty()) throw TemplateError(fmt::format("{}: expected a key", name));
  const Value* found = dict.find(a.values[0]);
  if (name == "get") return found != nullptr ? *found : otherwise != nullptr ? *otherwise : Value();
  if (name == "setdefault") {
    if (found != nullptr) return *found;
    run.memory().set(dict, a.values[0], otherwise != nullptr ? *otherwise : Value());
    return otherwise != nullptr ? *otherwise : Value();
  }
  if (name == "pop") {
    if (found == nullptr && otherwise == nullptr) throw TemplateError("pop: the dict has no such key");
    if (found == nullptr) return *otherwise;
    const Value value = *found;
    std::erase_if(dict.entries, [&](const auto& entry) { return equal(entry.first, a.values[0]); });
    return value;
  }
  return {};
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  const auto is_in = [&](const auto& names) { return std::ranges::find(names, name) != names.end(); };
  switch (object.kind) {
    case ValueKind::text: return is_in(kTextMethods);
    case ValueKind::list: return is_in(kListMethods);
    case ValueKind::tuple: return name == "index" || name == "count";
    case ValueKind::dict: return is_in(kDictMethods);
    case ValueKind::loop: return name == "cycle" || name == "changed";
    default: return false;
  }
}

std::optional<Value> call_method(Interpreter& run, const Value& object, const std::string& name,
                                 const CallArguments& arguments) {
  if (!has_method(object, name)) return {};
  if (object.is_text()) return text_method(run, *object.text, name, arguments);
  if (object.is_list()) return list_method(run, *object.list, name, arguments);
  if (object.is(ValueKind::dict)) return dict_method(run, *object.dict, name, arguments);
  return {};
}

}  // namespace quern::llm
