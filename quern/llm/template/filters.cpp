// Filters and tests. A filter that is not in the table is an Error that names it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "quern/llm/template/interpreter.h"
#include "quern/llm/template/letters.h"

namespace quern::llm {
namespace {

using Arguments = CallArguments;

const std::string& text_argument(const Value& value, const char* what) {
  if (!value.is_text())
    throw TemplateError(fmt::format("{}: expected a str, got a {}", what, kind_name(value)));
  return *value.text;
}

bool flag(const Arguments& a, size_t i, std::string_view name, bool otherwise) {
  const Value* given = a.get(i, name);
  return given != nullptr ? is_true(*given) : otherwise;
}

int64_t count_of(Interpreter& run, const Value& v) {
  switch (v.kind) {
    case ValueKind::text:
      run.step(v.text->size() / 16);
      return static_cast<int64_t>(character_count(*v.text));
    case ValueKind::list:
    case ValueKind::tuple: return std::ssize(v.list->items);
    case ValueKind::dict: return std::ssize(v.dict->entries);
    case ValueKind::undefined: return 0;
    default: throw TemplateError(fmt::format("a {} has no length", kind_name(v)));
  }
}

// ---- Filters. Each is given what stands before the "|".

Value default_filter(Interpreter&, const Value& v, const Arguments& a) {
  const bool missing = v.is_undefined() || (flag(a, 1, "boolean", false) && !is_true(v));
  if (!missing) return v;
  const Value* given = a.get(0, "default_value");
  static const std::string kNothing;
  Value empty;
  empty.kind = ValueKind::text;
  empty.text = &kNothing;
  return given != nullptr ? *given : empty;
}

Value length_filter(Interpreter& run, const Value& v, const Arguments&) {
  return Value::of(count_of(run, v));
}

Value trim_filter(Interpreter& run, const Value& v, const Arguments& a) {
  const Value* letters = a.get(0, "chars");
  return run.memory().text(
      stripped(text_of(v), letters != nullptr ? std::optional(text_of(*letters)) : std::nullopt, true, true));
}
Value upper_filter(Interpreter& run, const Value& v, const Arguments&) {
  return run.memory().text(upper_case(text_of(v)));
}
Value lower_filter(Interpreter& run, const Value& v, const Arguments&) {
  return run.memory().text(lower_case(text_of(v)));
}
Value capitalize_filter(Interpreter& run, const Value& v, const Arguments&) {
  return run.memory().text(capitalized(text_of(v)));
}
Value title_filter(Interpreter& run, const Value& v, const Arguments&) {
  return run.memory().text(title_case(text_of(v)));
}
Value string_filter(Interpreter& run, const Value& v, const Arguments&) {
  return v.is_text() ? v : run.memory().text(text_of(v));
}
Value same_filter(Interpreter&, const Value& v, const Arguments&) { return v; }

Value replace_filter(Interpreter& run, const Value& v, const Arguments& a) {
  const Value *from = a.get(0, "old"), *to = a.get(1, "new"), *count = a.get(2, "count");
  if (from == nullptr || to == nullptr) throw TemplateError("replace: expected two texts");
  return run.memory().text(
      replaced_text(text_of(v), text_of(*from), text_of(*to),
                    count != nullptr && count->is(ValueKind::integer) ? count->integer : -1));
}

Value attribute_path(Interpreter& run, const Value& item, const Value& path) {
  if (!path.is_text()) return run.item(item, path);
  Value found = item;
  std::string_view rest = *path.text;
  while (!rest.empty()) {
    const size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool is_number = error == std::errc() && end == part.data() + part.size();
    found = run.item(found, is_number ? Value::of(number) : run.memory().text(part));
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  return found;
}

Value join_filter(Interpreter& run, const Value& v, const Arguments& a) {
  const Value *between = a.get(0, "d"), *name = a.get(1, "attribute");
  std::string text;
  bool first = true;
  for (const Value& item : run.items_of(v)) {
    if (!first && between != nullptr) text += text_of(*between);
    first = false;
    text += text_of(name != nullptr ? attribute_path(run, item, *name) : item);
    run.memory().count_bytes(0);
  }
  return run.memory().text(text);
}

Value end_of(Interpreter& run, const Value& v, bool first) {
  const std::vector<Value> items = run.items_of(v);
  if (items.empty()) return run.memory().undefined(first ? "the first of nothing" : "the last of nothing");
  return first ? items.front() : items.back();
}
Value first_filter(Interpreter& run, const Value& v, const Arguments&) { return end_of(run, v, true); }
Value last_filter(Interpreter& run, const Value& v, const Arguments&) { return end_of(run, v, false); }
Value list_filter(Interpreter& run, const Value& v, const Arguments&) {
  return run.memory().list(run.items_of(v));
}
Value reverse_filter(Interpreter& run, const Value& v, const Arguments&) {
  std::vector<Value> items = run.items_of(v);
  std::ranges::reverse(items);
  if (!v.is_text()) return run.memory().list(items);
  std::string text;
  for (const Value& letter : items) text += *letter.text;
  return run.memory().text(text);
}

Arguments rest_of(const Arguments& a, size_t from) {
  Arguments rest;
  if (a.values.size() > from)
    rest.values.assign(a.values.begin() + static_cast<std::ptrdiff_t>(from), a.values.end());
  return rest;
}

// Of what is false there are no items: templates filter what may be none.
std::vector<Value> items_if_true(Interpreter& run, const Value& v) {
  return is_true(v) ? run.items_of(v) : std::vector<Value>();
}

Value map_filter(Interpreter& run, const Value& v, const Arguments& a) {
  std::vector<Value> items = items_if_true(run, v);
  const Value* name = a.named.find("attribute");
  if (name == nullptr && a.values.empty()) throw TemplateError("map: expected a filter or attribute=");
  for (Value& item : items) {
    run.step();
    if (name == nullptr) {
      item = run.filtered(text_argument(a.values[0], "map"), item, rest_of(a, 1));
      continue;
    }
    item = attribute_path(run, item, *name);
    if (const Value* otherwise = a.named.find("default"); otherwise != nullptr && item.is_undefined())
      item = *otherwise;
  }
  return run.memory().list(items);
}

// select, reject, and by an attribute.
Value chosen(Interpreter& run, const Value& v, const Arguments& a, bool by_attribute, bool wanted) {
  std::vector<Value> found;
  const size_t first = by_attribute ? 1 : 0;
  if (a.values.size() < first) throw TemplateError("expected the name of an attribute");
  for (const Value& item : items_if_true(run, v)) {
    run.step();
    const Value tested = by_attribute ? attribute_path(run, item, a.values[0]) : item;
    const bool holds =
        a.values.size() > first
            ? run.tested(text_argument(a.values[first], "the name of a test"), tested, rest_of(a, first + 1))
            : is_true(tested);
    if (holds == wanted) found.push_back(item);
  }
  return run.memory().list(found);
}
Value select_filter(Interpreter& run, const Value& v, const Arguments& a) {
  return chosen(run, v, a, false, true);
}
Value reject_filter(Interpreter& run, const Value& v, const Arguments& a) {
  return chosen(run, v, a, false, false);
}
Value selectattr_filter(Interpreter& run, const Value& v, const Arguments& a) {
  return chosen(run, v, a, true, true);
}
Value rejectattr_filter(Interpreter& run, const Value& v, const Arguments& a) {
  return chosen(run, v, a, true, false);
}

Value tojson_filter(Interpreter& run, const Value& v, const Arguments& a) {
  JsonStyle style;
  const Value* indent = a.get(1, "indent");  // the first one is ensure_ascii
  if (a.values.size() == 1 && a.values[0].is(ValueKind::integer))
    indent = a.values.data();
  else
    style.ascii = flag(a, 0, "ensure_ascii", false);
  if (indent != nullptr && indent->is(ValueKind::integer))
    style.indent = std::clamp<int64_t>(indent->integer, 0, 64);
  if (const Value* separators = a.get(2, "separators");
      separators != nullptr && separators->is_list() && separators->list->items.size() == 2) {
    style.between = text_of(separators->list->items[0]);
    style.after_key = text_of(separators->list->items[1]);
  }
  style.sort_keys = flag(a, 3, "sort_keys", false);
  return run.memory().text(json_of(v, style));
}

Value items_filter(Interpreter& run, const Value& v, const Arguments&) {
  if (v.is_undefined()) return run.memory().list({});
  if (!v.is(ValueKind::dict))
    throw TemplateError(fmt::format("items: expected a dict, got a {}", kind_name(v)));
  std::vector<Value> items;
  for (const auto& [key, value] : v.dict->entries)
    items.push_back(run.memory().list({key, value}, ValueKind::tuple));
  return run.memory().list(items);
}

Value key_for_sorting(Interpreter& run, const Value& v, bool case_sensitive) {
  return v.is_text() && !case_sensitive ? run.memory().text(lower_case(*v.text)) : v;
}

void sort_by_keys(std::vector<std::pair<Value, Value>>& items, bool reverse) {
  std::ranges::stable_sort(items, [&](const auto& x, const auto& y) {
    return reverse ? compare(y.first, x.first) < 0 : compare(x.first, y.first) < 0;
  });
}

Value dictsort_filter(Interpreter& run, const Value& v, const Arguments& a) {
  if (!v.is(ValueKind::dict))
    throw TemplateError(fmt::format("dictsort: expected a dict, got a {}", kind_name(v)));
  const bool case_sensitive = flag(a, 0, "case_sensitive", false), reverse = flag(a, 2, "reverse", false);
  const Value* by = a.get(1, "by");
  const bool by_value = by != nullptr && text_of(*by) == "value";
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, value] : v.dict->entries)
    items.emplace_back(key_for_sorting(run, by_value ? value : key, case_sensitive),
                       run.memory().list({key, value}, ValueKind::tuple));
  sort_by_keys(items, reverse);
  std::vector<Value> sorted;
  for (const auto& [key, item] : items) sorted.push_back(item);
  return run.memory().list(sorted);
}

Value sort_filter(Interpreter& run, const Value& v, const Arguments& a) {
  const bool reverse = flag(a, 0, "reverse", false), case_sensitive = flag(a, 1, "case_sensitive", false);
  const Value* name = a.get(2, "attribute");
  std::vector<std::pair<Value, Value>> items;
  for (const Value& item : run.items_of(v))
    items.emplace_back(
        key_for_sorting(run, name != nullptr ? attribute_path(run, item, *name) : item, case_sensitive),
        item);
  run.step(items.size() * 4);
  sort_by_keys(items, reverse);
  std::vector<Value> sorted;
  for (const auto& [key, item] : items) sorted.push_back(item);
  return run.memory().list(sorted);
}

Value unique_filter(Interpreter& run, const Value& v, const Arguments& a) {
  const bool case_sensitive = flag(a, 0, "case_sensitive", false);
  const Value* name = a.get(1, "attribute");
  std::vector<Value> keys, found;
  for (const Value& item : run.items_of(v)) {
    const Value key =
        key_for_sorting(run, name != nullptr ? attribute_path(run, item, *name) : item, case_sensitive);
    run.step(keys.size() + 1);
    if (std::ranges::any_of(keys, [&](const Value& k) { return equal(k, key); })) continue;
    keys.push_back(key);
    found.push_back(item);
  }
  return run.memory().list(found);
}

Value extreme(Interpreter& run, const Value& v, const Arguments& a, int sign) {
  const bool case_sensitive = flag(a, 0, "case_sensitive", false);
  const Value* name = a.get(1, "attribute");
  std::optional<std::pair<Value, Value>> best;
  for (const Value& item : run.items_of(v)) {
    run.step();
    const Value key =
        key_for_sorting(run, name != nullptr ? attribute_path(run, item, *name) : item, case_sensitive);
    if (!best || compare(key, best->first) * sign > 0) best = {key, item};
  }
  return best ? best->second : run.memory().undefined("the least or greatest of nothing");
}
Value min_filter(Interpreter& run, const Value& v, const Arguments& a) { return extreme(run, v, a, -1); }
Value max_filter(Interpreter& run, const Value& v, const Arguments& a) { return extreme(run, v, a, 1); }

Value sum_filter(Interpreter& run, const Value& v, const Arguments& a) {
  const Value *name = a.get(0, "attribute"), *start = a.get(1, "start");
  Value sum = start != nullptr ? *start : Value::of(int64_t{0});
  for (const Value& item : run.items_of(v))
    sum = run.binary("+", sum, name != nullptr ? attribute_path(run, item, *name) : item);
  return sum;
}

Value indent_filter(Interpreter& run, const Value& v, const Arguments& a) {
  const Value* width = a.get(0, "width");
  std::string margin(4, ' ');
  if (width != nullptr && width->is_text()) margin = *width->text;
  if (width != nullptr && width->is(ValueKind::integer))
    margin.assign(static_cast<size_t>(std::clamp<int64_t>(width->integer, 0, 1000)), ' ');
  const bool first = flag(a, 1, "first", false), blank = flag(a, 2, "blank", false);
  const std::string text = text_of(v);
  std::string result;
  bool is_first = true;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if ((is_first ? first : blank || !line.empty())) result += margin;
    result += line;
    run.memory().count_bytes(margin.size());
    if (end < text.size()) result += '\n';
    is_first = false;
    at = end + 1;
  }
  return run.memory().text(result);
}

Value int_filter(Interpreter&, const Value& v, const Arguments& a) {
  const Value* otherwise = a.get(0, "default");
  const Value fallback = otherwise != nullptr ? *otherwise : Value::of(int64_t{0});
  if (v.is(ValueKind::boolean)) return Value::of(int64_t{v.boolean});
  if (v.is(ValueKind::integer)) return v;
  double number = 0;
  if (v.is_text()) {
    const std::string text = stripped(*v.text, std::nullopt, true, true);
    int64_t integer = 0;
    const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
    if (const auto [at, error] = std::from_chars(begin, end, integer);
        error == std::errc() && at == end && begin != end)
      return Value::of(integer);
    if (const auto [at, error] = std::from_chars(begin, end, number);
        error != std::errc() || at != end || begin == end)
      return fallback;
  } else if (v.is(ValueKind::floating)) {
    number = v.floating;
  } else {
    return fallback;
  }
  return std::fabs(number) < 9e18 ? Value::of(static_cast<int64_t>(number)) : fallback;
}

Value float_filter(Interpreter&, const Value& v, const Arguments& a) {
  const Value* otherwise = a.get(0, "default");
  if (v.is_number()) return Value::of(number_of(v));
  if (v.is_text()) {
    const std::string text = stripped(*v.text, std::nullopt, true, true);
    double number = 0;
    if (const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        error == std::errc() && at == text.data() + text.size())
      return Value::of(number);
  }
  return otherwise != nullptr ? *otherwise : Value::of(0.0);
}

Value abs_filter(Interpreter& run, const Value& v, const Arguments&) {
  if (v.is(ValueKind::floating)) return Value::of(std::fabs(v.floating));
  return compare(v, Value::of(int64_t{0})) < 0 ? run.binary("-", Value::of(int64_t{0}), v) : v;
}

Value round_filter(Interpreter&, const Value& v, const Arguments& a) {
  const Value *digits = a.get(0, "precision"), *method = a.get(1, "method");
  const double number = number_of(v), places = digits != nullptr ? number_of(*digits) : 0;
  const double scale = std::pow(10.0, places);
  const std::string how = method != nullptr ? text_of(*method) : "common";
  if (how == "ceil") return Value::of(std::ceil(number * scale) / scale);
  if (how == "floor") return Value::of(std::floor(number * scale) / scale);
  if (how == "common" && !v.is(ValueKind::floating)) return v;
  if (how != "common") throw TemplateError(fmt::format("round: the method '{}' is not known", how));
  // Of the decimal number that is nearest to it, as Python rounds: halves to even.
  double rounded = number;
  if (places >= 0 && places < 20) {
    const std::string text = fmt::format("{:.{}f}", number, static_cast<int>(places));
    std::from_chars(text.data(), text.data() + text.size(), rounded);
  } else {
    rounded = std::nearbyint(number * scale) / scale;
  }
  return Value::of(rounded);
}

Value escape_filter(Interpreter& run, const Value& v, const Arguments&) {
  std::string text;
  for (const char c : text_of(v)) {
    if (c == '&')
      text += "&amp;";
    else if (c == '<')
      text += "&lt;";
    else if (c == '>')
      text += "&gt;";
    else if (c == '"')
      text += "&#34;";
    else if (c == '\'')
      text += "&#39;";
    else
      text += c;
  }
  return run.memory().text(text);
}

Value attr_filter(Interpreter& run, const Value& v, const Arguments& a) {
  if (a.values.size() != 1) throw TemplateError("attr: expected a name");
  return run.attribute(v, text_argument(a.values[0], "attr"));
}

Value batch_filter(Interpreter& run, const Value& v, const Arguments& a) {
  const Value *size = a.get(0, "linecount"), *fill = a.get(1, "fill_with");
  if (size == nullptr || !size->is(ValueKind::integer) || size->integer < 1)
    throw TemplateError("batch: expected a number of items");
  std::vector<Value> rows, row;
  for (const Value& item : run.items_of(v)) {
    row.push_back(item);
    if (std::ssize(row) < size->integer) continue;
    rows.push_back(run.memory().list(row));
    row.clear();
  }
  if (!row.empty()) {
    if (fill != nullptr) {
      run.step(static_cast<size_t>(size->integer));
      row.resize(static_cast<size_t>(size->integer), *fill);
    }
    rows.push_back(run.memory().list(row));
  }
  return run.memory().list(rows);
}

struct Filter {
  std::string_view name;
  Value (*apply)(Interpreter&, const Value&, const Arguments&);
};
constexpr std::array<Filter, 39> kFilters = {{
    {"default", default_filter},
    {"d", default_filter},
    {"length", length_filter},
    {"count", length_filter},
    {"trim", trim_filter},
    {"upper", upper_filter},
    {"lower", lower_filter},
    {"capitalize", capitalize_filter},
    {"title", title_filter},
    {"string", string_filter},
    {"safe", same_filter},
    {"replace", replace_filter},
    {"join", join_filter},
    {"first", first_filter},
    {"last", last_filter},
    {"list", list_filter},
    {"reverse", reverse_filter},
    {"map", map_filter},
    {"select", select_filter},
    {"reject", reject_filter},
    {"selectattr", selectattr_filter},
    {"rejectattr", rejectattr_filter},
    {"tojson", tojson_filter},
    {"items", items_filter},
    {"dictsort", dictsort_filter},
    {"sort", sort_filter},
    {"unique", unique_filter},
    {"min", min_filter},
    {"max", max_filter},
    {"sum", sum_filter},
    {"indent", indent_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"escape", escape_filter},
    {"e", escape_filter},
    {"attr", attr_filter},
    {"batch", batch_filter},
}};

// ---- Tests

bool is_integer(const Value& v) { return v.is(ValueKind::integer); }
int64_t tested_integer(const Value& v) {
  if (!v.is(ValueKind::integer) && !v.is(ValueKind::boolean))
    throw TemplateError(fmt::format("expected an int, got a {}", kind_name(v)));
  return v.is(ValueKind::integer) ? v.integer : int64_t{v.boolean};
}
const Value& operand(const Arguments& a) {
  if (a.values.size() != 1) throw TemplateError("a test that compares takes one operand");
  return a.values[0];
}

struct Test {
  std::string_view name;
  bool (*holds)(Interpreter&, const Value&, const Arguments&);
};
// clang-format off
constexpr std::array<Test, 36> kTests = {{
    {"defined", [](Interpreter&, const Value& v, const Arguments&) { return !v.is_undefined(); }},
    {"undefined", [](Interpreter&, const Value& v, const Arguments&) { return v.is_undefined(); }},
    {"none", [](Interpreter&, const Value& v, const Arguments&) { return v.is(ValueKind::none); }},
    {"string", [](Interpreter&, const Value& v, const Arguments&) { return v.is_text(); }},
    {"number", [](Interpreter&, const Value& v, const Arguments&) { return v.is_number(); }},
    {"integer", [](Interpreter&, const Value& v, const Arguments&) { return is_integer(v); }},
    {"float", [](Interpreter&, const Value& v, const Arguments&) { return v.is(ValueKind::floating); }},
    {"boolean", [](Interpreter&, const Value& v, const Arguments&) { return v.is(ValueKind::boolean); }},
    {"true", [](Interpreter&, const Value& v, const Arguments&) { return v.is(ValueKind::boolean) && v.boolean; }},
    {"false", [](Interpreter&, const Value& v, const Arguments&) { return v.is(ValueKind::boolean) && !v.boolean; }},
    {"mapping", [](Interpreter&, const Value& v, const Arguments&) { return v.is(ValueKind::dict); }},
    {"sequence", [](Interpreter&, const Value& v, const Arguments&) { return v.is_text() || v.is_list() || v.is(ValueKind::dict) || v.is_undefined(); }},
    {"iterable", [](Interpreter&, const Value& v, const Arguments&) { return v.is_text() || v.is_list() || v.is(ValueKind::dict) || v.is_undefined(); }},
    {"callable", [](Interpreter&, const Value& v, const Arguments&) { return v.is(ValueKind::function); }},
    {"odd", [](Interpreter&, const Value& v, const Arguments&) { return tested_integer(v) % 2 != 0; }},
    {"even", [](Interpreter&, const Value& v, const Arguments&) { return tested_integer(v) % 2 == 0; }},
    {"divisibleby", [](Interpreter&, const Value& v, const Arguments& a) {
       const int64_t by = tested_integer(operand(a));
       if (by == 0) throw TemplateError("a division by zero");
       return by == -1 || tested_integer(v) % by == 0; }},
    {"equalto", [](Interpreter&, const Value& v, const Arguments& a) { return equal(v, operand(a)); }},
    {"eq", [](Interpreter&, const Value& v, const Arguments& a) { return equal(v, operand(a)); }},
    {"==", [](Interpreter&, const Value& v, const Arguments& a) { return equal(v, operand(a)); }},
    {"ne", [](Interpreter&, const Value& v, const Arguments& a) { return !equal(v, operand(a)); }},
    {"!=", [](Interpreter&, const Value& v, const Arguments& a) { return !equal(v, operand(a)); }},
    {"lt", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) < 0; }},
    {"lessthan", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) < 0; }},
    {"<", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) < 0; }},
    {"le", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) <= 0; }},
    {"<=", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) <= 0; }},
    {"gt", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) > 0; }},
    {"greaterthan", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) > 0; }},
    {">", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) > 0; }},
    {"ge", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) >= 0; }},
    {">=", [](Interpreter&, const Value& v, const Arguments& a) { return compare(v, operand(a)) >= 0; }},
    {"in", [](Interpreter& run, const Value& v, const Arguments& a) { return run.contains(operand(a), v); }},
    {"sameas", [](Interpreter&, const Value& v, const Arguments& a) { return v.kind == operand(a).kind && equal(v, operand(a)); }},
    {"lower", [](Interpreter&, const Value& v, const Arguments&) { return lower_case(text_of(v)) == text_of(v) && upper_case(text_of(v)) != text_of(v); }},
    {"upper", [](Interpreter&, const Value& v, const Arguments&) { return upper_case(text_of(v)) == text_of(v) && lower_case(text_of(v)) != text_of(v); }},
}};
// clang-format on

}  // namespace

Value Interpreter::filtered(const std::string& name, const Value& value, const CallArguments& arguments) {
  for (const Filter& f : kFilters)
    if (f.apply != nullptr && f.name == name) return f.apply(*this, value, arguments);
  throw TemplateError(fmt::format("the filter '{}' is not known", name));
}

bool Interpreter::tested(const std::string& name, const Value& value, const CallArguments& arguments) {
  for (const Test& t : kTests)
    if (t.holds != nullptr && t.name == name) return t.holds(*this, value, arguments);
  throw TemplateError(fmt::format("the test '{}' is not known", name));
}

}  // namespace quern::llm
