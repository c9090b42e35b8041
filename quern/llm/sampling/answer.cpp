#include "quern/llm/sampling/answer.h"

#include <algorithm>

namespace quern::llm {

std::string AnswerText::add(std::string_view bytes) {
  if (is_stopped_) return "";
  waiting_ += characters_.add(bytes);
  size_t stop = std::string::npos, keep = 0;
  for (const std::string& text : stops_) {
    if (text.empty()) continue;
    stop = std::min(stop, waiting_.find(text));
    for (size_t length = std::min(text.size() - 1, waiting_.size()); length > keep; length--)
      if (waiting_.ends_with(std::string_view(text).substr(0, length))) keep = length;
  }
  if (stop != std::string::npos) {
    is_stopped_ = true;
    return waiting_.substr(0, stop);
  }
  std::string shown = waiting_.substr(0, waiting_.size() - keep);
  waiting_.erase(0, shown.size());
  return shown;
}

std::string AnswerText::finish() {
  if (is_stopped_) return "";
  return waiting_ + characters_.finish();
}

}  // namespace quern::llm
