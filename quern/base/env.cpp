#include "quern/base/env.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "quern/base/error.h"
#include "quern/base/fork.h"

namespace quern::env {

constinit Variable detail::rows[] = {
#define NUMBER(name, fallback, least, most, description) \
  {#name, Kind::number, fallback, least, most, description},
#define FLAG(name, description) {#name, Kind::flag, 0, 0, 1, description},
#define TEXT(name, description) {#name, Kind::text, 0, 0, 0, description},
    QUERN_VARIABLES(NUMBER, FLAG, TEXT)
#undef NUMBER
#undef FLAG
#undef TEXT
};

namespace {

std::string allowed(const Variable& v) {
  if (v.kind == Kind::text) return "text";
  return v.kind == Kind::flag ? "set or not" : fmt::format("{} to {}", v.least, v.most);
}

[[noreturn]] void refuse(const Variable& v, std::string_view given) {
  const std::string range = fmt::format("a number from {} to {}", v.least, v.most);
  throw Error(fmt::format("{0}={1}: {0} is {2} ({3})", v.name, given, range, v.description));
}

int64_t checked(const Variable& v, int64_t value) {
  if (value < v.least || value > v.most) refuse(v, std::to_string(value));
  return value;
}

// The one copy of the text, which is never freed: readers hold references to it.
const std::string* pooled(std::string_view text) {
  static ProcessMutex mutex(LockOrder::settings);
  static auto* const pool =
      new std::set<std::string, std::less<>>;  // NOLINT(cppcoreguidelines-owning-memory)
  const std::lock_guard lock(mutex);
  return &*pool->emplace(text).first;
}

Variable& find(std::string_view name, bool text) {
  auto* const found = std::ranges::find(detail::rows, name, &Variable::name);
  if (found == std::end(detail::rows))
    throw Error(fmt::format("there is no variable {}; there are {}", name, fmt::join(names(), ", ")));
  if ((found->kind == Kind::text) != text)
    throw Error(
        fmt::format("{} is {}, not {}", name, text ? "a number" : "text", text ? "text" : "a number"));
  return *found;
}

}  // namespace

int64_t detail::read_number(Variable& v) {
  const char* given = std::getenv(v.name);  // NOLINT(concurrency-mt-unsafe): quern never sets one
  const std::string_view text = given == nullptr ? "" : given;
  int64_t value = v.fallback;
  if (!text.empty() && v.kind == Kind::flag) value = 1;
  if (!text.empty() && v.kind == Kind::number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) refuse(v, text);
    checked(v, value);
  }
  int64_t known = Variable::kUnread;
  return v.number.compare_exchange_strong(known, value) ? value : known;
}

const std::string& detail::read_text(Variable& v) {
  const char* given = std::getenv(v.name);  // NOLINT(concurrency-mt-unsafe): quern never sets one
  const std::string* value = pooled(given == nullptr ? "" : given);
  const std::string* known = nullptr;
  return v.text.compare_exchange_strong(known, value) ? *value : *known;
}

int64_t get(std::string_view name) {
  Variable& v = find(name, false);
  return detail::number(static_cast<detail::Row>(&v - detail::rows));
}

const std::string& get_text(std::string_view name) {
  Variable& v = find(name, true);
  return detail::text(static_cast<detail::Row>(&v - detail::rows));
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const Variable& v : detail::rows) all.emplace_back(v.name);
  return all;
}

void set(std::string_view name, int64_t value) {
  Variable& variable = find(name, false);
  variable.number.store(checked(variable, value));
}

void set(std::string_view name, std::string_view text) { find(name, true).text.store(pooled(text)); }

Override::Override(std::string_view name, int64_t value) : variable_(find(name, false)), number_(get(name)) {
  variable_.number.store(checked(variable_, value));
}

Override::Override(std::string_view name, std::string_view text)
    : variable_(find(name, true)), text_(&get_text(name)) {
  variable_.text.store(pooled(text));
}

Override::~Override() {
  if (text_ != nullptr)
    variable_.text.store(text_);
  else
    variable_.number.store(number_);
}

std::string table() {
  std::string lines;
  for (const Variable& v : detail::rows) {
    const std::string fallback = v.kind == Kind::number ? std::to_string(v.fallback) : "";
    lines += fmt::format("{:<18} {:>2}  {:<10}  {}\n", v.name, fallback, allowed(v), v.description);
  }
  return lines;
}

}  // namespace quern::env
