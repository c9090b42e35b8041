// What a file of GGUF says of its model, by key. A value of another kind than the one that is asked for is an
// Error that names the key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quern/io/gguf.h"

namespace quern::llm {

class Metadata {
 public:
  explicit Metadata(const std::map<std::string, io::GgufValue>& values) : values_(&values) {}

  bool contains(const std::string& key) const { return values_->contains(key); }
  std::optional<std::string> text(const std::string& key) const;
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  std::optional<bool> boolean(const std::string& key) const;

  // An Error if the key is not there, or the number is not within bounds.
  std::string needed_text(const std::string& key) const;
  int64_t needed_integer(const std::string& key, int64_t least, int64_t most) const;

  // Lists; empty if the key is not there.
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  std::vector<int64_t> integers(const std::string& key) const;
  bool is_list(const std::string& key) const;

 private:
  const io::GgufValue* find(const std::string& key) const;
  const std::map<std::string, io::GgufValue>* values_;
};

}  // namespace quern::llm
