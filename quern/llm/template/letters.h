// What Python's texts can do, on texts of UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::llm {

// Without the letters at its ends that are among those given; spaces if none are.
std::string stripped(std::string_view text, const std::optional<std::string>& letters, bool left, bool right);
std::string replaced_text(std::string_view text, std::string_view from, std::string_view to, int64_t most);
// Letter by letter: where a letter becomes several, it stays as it is.
std::string upper_case(std::string_view text);
std::string lower_case(std::string_view text);
std::string capitalized(std::string_view text);
std::string title_case(std::string_view text);
// Cut at spaces, or at a separator.
std::vector<std::string> split_text(std::string_view text, const std::optional<std::string>& separator,
                                    int64_t most);
std::vector<std::string> split_text_from_right(std::string_view text,
                                               const std::optional<std::string>& separator, int64_t most);
std::vector<std::string> lines_of(std::string_view text, bool keep_ends);

}  // namespace quern::llm
