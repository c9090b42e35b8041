// Spaces in vocabularies that have the mark U+2581 for them.
#pragma once

#include <string>
#include <string_view>

namespace quern::llm {

inline constexpr std::string_view kSpaceMark = "\u2581";

std::string marks_for_spaces(std::string_view text);
std::string spaces_for_marks(std::string_view text);

}  // namespace quern::llm
