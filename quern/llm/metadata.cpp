#include "quern/llm/metadata.h"

#include <fmt/format.h>

#include "quern/base/error.h"

namespace quern::llm {
namespace {

[[noreturn]] void wrong_kind(const std::string& key, const char* expected) {
  throw Error(fmt::format("the file says '{}', but not as {}", key, expected));
}

std::optional<int64_t> as_integer(const io::GgufValue& v) {
  if (const auto* i = std::get_if<int64_t>(&v.value)) return *i;
  if (const auto* u = std::get_if<uint64_t>(&v.value))
    return *u <= uint64_t{INT64_MAX} ? std::optional(static_cast<int64_t>(*u)) : std::nullopt;
  if (const auto* b = std::get_if<bool>(&v.value)) return *b ? 1 : 0;
  return std::nullopt;
}

std::optional<double> as_number(const io::GgufValue& v) {
  if (const auto* d = std::get_if<double>(&v.value)) return *d;
  if (const auto i = as_integer(v)) return static_cast<double>(*i);
  return std::nullopt;
}

}  // namespace

const io::GgufValue* Metadata::find(const std::string& key) const {
  const auto found = values_->find(key);
  return found == values_->end() ? nullptr : &found->second;
}

std::optional<std::string> Metadata::text(const std::string& key) const {
  const auto* v = find(key);
  if (v == nullptr) return {};
  if (const auto* s = std::get_if<std::string>(&v->value)) return *s;
  wrong_kind(key, "a text");
}

std::optional<int64_t> Metadata::integer(const std::string& key) const {
  const auto* v = find(key);
  if (v == nullptr) return {};
  if (const auto i = as_integer(*v)) return i;
  wrong_kind(key, "an integer");
}

std::optional<double> Metadata::number(const std::string& key) const {
  const auto* v = find(key);
  if (v == nullptr) return {};
  if (const auto d = as_number(*v)) return d;
  wrong_kind(key, "a number");
}

std::optional<bool> Metadata::boolean(const std::string& key) const {
  const auto* v = find(key);
  if (v == nullptr) return {};
  if (const auto* b = std::get_if<bool>(&v->value)) return *b;
  wrong_kind(key, "true or false");
}

std::string Metadata::needed_text(const std::string& key) const {
  if (auto found = text(key)) return *std::move(found);
  throw Error(fmt::format("the file does not say '{}'", key));
}

int64_t Metadata::needed_integer(const std::string& key, int64_t least, int64_t most) const {
  const auto found = integer(key);
  if (!found) throw Error(fmt::format("the file does not say '{}'", key));
  if (*found < least || *found > most)
    throw Error(fmt::format("'{}' is {}, expected {} to {}", key, *found, least, most));
  return *found;
}

bool Metadata::is_list(const std::string& key) const {
  const auto* v = find(key);
  return v != nullptr && std::holds_alternative<std::vector<io::GgufValue>>(v->value);
}

std::vector<std::string> Metadata::texts(const std::string& key) const {
  const auto* v = find(key);
  if (v == nullptr) return {};
  if (!is_list(key)) wrong_kind(key, "a list of texts");
  std::vector<std::string> all;
  for (const io::GgufValue& part : std::get<std::vector<io::GgufValue>>(v->value)) {
    const auto* s = std::get_if<std::string>(&part.value);
    if (s == nullptr) wrong_kind(key, "a list of texts");
    all.push_back(*s);
  }
  return all;
}

std::vector<double> Metadata::numbers(const std::string& key) const {
  const auto* v = find(key);
  if (v == nullptr) return {};
  if (!is_list(key)) wrong_kind(key, "a list of numbers");
  std::vector<double> all;
  for (const io::GgufValue& part : std::get<std::vector<io::GgufValue>>(v->value)) {
    const auto d = as_number(part);
    if (!d) wrong_kind(key, "a list of numbers");
    all.push_back(*d);
  }
  return all;
}

std::vector<int64_t> Metadata::integers(const std::string& key) const {
  const auto* v = find(key);
  if (v == nullptr) return {};
  if (!is_list(key)) wrong_kind(key, "a list of integers");
  std::vector<int64_t> all;
  for (const io::GgufValue& part : std::get<std::vector<io::GgufValue>>(v->value)) {
    const auto i = as_integer(part);
    if (!i) wrong_kind(key, "a list of integers");
    all.push_back(*i);
  }
  return all;
}

}  // namespace quern::llm
