// The text of an answer as its tokens come: whole characters, and nothing of a text that ends it.
#pragma once

#include <string>
#include <vector>

#include "quern/llm/tokenizer/utf8.h"

namespace quern::llm {

class AnswerText {
 public:
  explicit AnswerText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What can be shown now. What could become the beginning of a stop waits.
  std::string add(std::string_view bytes);
  std::string finish();  // what still waits
  bool is_stopped() const { return is_stopped_; }

 private:
  std::vector<std::string> stops_;
  CharacterStream characters_;
  std::string waiting_;
  bool is_stopped_ = false;
};

}  // namespace quern::llm
