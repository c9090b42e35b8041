#include "quern/llm/tokenizer/spaces.h"

namespace quern::llm {
namespace {

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string result;
  for (size_t at = 0;;) {
    const size_t found = text.find(what, at);
    result += text.substr(at, found - at);
    if (found == std::string_view::npos) return result;
    result += by;
    at = found + what.size();
  }
}

}  // namespace

std::string marks_for_spaces(std::string_view text) { return replaced(text, " ", kSpaceMark); }
std::string spaces_for_marks(std::string_view text) { return replaced(text, kSpaceMark, " "); }

}  // namespace quern::llm
