#include "quern/llm/template/letters.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>

#include "quern/llm/template/value.h"
#include "quern/llm/tokenizer/utf8.h"

namespace quern::llm {
namespace {

locale_t unicode_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

char32_t in_case(char32_t code, bool upper) {
  if (code < 0x80 || unicode_locale() == nullptr) {
    if (upper) return code >= 'a' && code <= 'z' ? code - 32 : code;
    return code >= 'A' && code <= 'Z' ? code + 32 : code;
  }
  const auto wide = static_cast<wint_t>(code);
  return static_cast<char32_t>(upper ? towupper_l(wide, unicode_locale())
                                     : towlower_l(wide, unicode_locale()));
}

bool is_letter_code(char32_t code) { return in_case(code, true) != code || in_case(code, false) != code; }

template <class Change>
std::string each_letter(std::string_view text, const Change& change) {
  std::string result;
  while (!text.empty()) {
    const Character c = first_character(text);
    if (c.is_valid)
      append_character(result, change(c.code));
    else
      result += text[0];
    text.remove_prefix(c.length);
  }
  return result;
}

size_t spaces_at(std::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    const Character c = first_character(text.substr(length));
    if (!is_space_character(c.code)) break;
    length += c.length;
  }
  return length;
}

std::string_view without_spaces_at_end(std::string_view text) {
  for (;;) {
    size_t begin = text.size();
    while (begin > 0 && (static_cast<uint8_t>(text[--begin]) & 0xC0) == 0x80) {
    }
    if (text.empty() || !is_space_character(first_character(text.substr(begin)).code)) return text;
    text = text.substr(0, begin);
  }
}

}  // namespace

std::string stripped(std::string_view text, const std::optional<std::string>& letters, bool left,
                     bool right) {
  if (!letters) {
    if (left) text.remove_prefix(spaces_at(text));
    return std::string(right ? without_spaces_at_end(text) : text);
  }
  const std::vector<std::string_view> set = characters_of(*letters);
  const std::vector<std::string_view> all = characters_of(text);
  const auto is_one = [&](std::string_view letter) { return std::ranges::find(set, letter) != set.end(); };
  size_t begin = 0, end = all.size();
  while (left && begin < end && is_one(all[begin])) begin++;
  while (right && end > begin && is_one(all[end - 1])) end--;
  std::string result;
  for (size_t i = begin; i < end; i++) result += all[i];
  return result;
}

std::string replaced_text(std::string_view text, std::string_view from, std::string_view to, int64_t most) {
  std::string result;
  if (from.empty()) {  // between all letters
    for (const std::string_view letter : characters_of(text)) {
      if (most != 0) {
        result += to;
        most--;
      }
      result += letter;
    }
    return most != 0 ? result.append(to) : result;
  }
  for (;; most--) {
    const size_t found = most == 0 ? std::string_view::npos : text.find(from);
    result += text.substr(0, found);
    if (found == std::string_view::npos) return result;
    result += to;
    text.remove_prefix(found + from.size());
  }
}

std::string upper_case(std::string_view text) {
  return each_letter(text, [](char32_t c) { return in_case(c, true); });
}
std::string lower_case(std::string_view text) {
  return each_letter(text, [](char32_t c) { return in_case(c, false); });
}
std::string capitalized(std::string_view text) {
  bool first = true;
  return each_letter(text, [&](char32_t c) { return in_case(c, std::exchange(first, false)); });
}
std::string title_case(std::string_view text) {
  bool inside = false;
  return each_letter(text, [&](char32_t c) {
    const char32_t changed = in_case(c, !inside);
    inside = is_letter_code(c);
    return changed;
  });
}

std::vector<std::string> split_text(std::string_view text, const std::optional<std::string>& separator,
                                    int64_t most) {
  std::vector<std::string> parts;
  if (!separator) {
    text.remove_prefix(spaces_at(text));
    while (!text.empty()) {
      if (most-- == 0) {
        parts.emplace_back(without_spaces_at_end(text));
        break;
      }
      size_t end = 0;
      while (end < text.size()) {
        const Character c = first_character(text.substr(end));
        if (is_space_character(c.code)) break;
        end += c.length;
      }
      parts.emplace_back(text.substr(0, end));
      text.remove_prefix(end);
      text.remove_prefix(spaces_at(text));
    }
    return parts;
  }
  if (separator->empty()) throw TemplateError("split: the separator is empty");
  for (;; most--) {
    const size_t found = most == 0 ? std::string_view::npos : text.find(*separator);
    parts.emplace_back(text.substr(0, found));
    if (found == std::string_view::npos) return parts;
    text.remove_prefix(found + separator->size());
  }
}

std::vector<std::string> split_text_from_right(std::string_view text,
                                               const std::optional<std::string>& separator, int64_t most) {
  if (most < 0) return split_text(text, separator, most);
  std::vector<std::string> parts;
  if (!separator) {
    text = without_spaces_at_end(text);
    while (most-- > 0 && !text.empty()) {
      size_t begin = text.size();
      while (begin > 0) {
        size_t letter = begin - 1;
        while (letter > 0 && (static_cast<uint8_t>(text[letter]) & 0xC0) == 0x80) letter--;
        if (is_space_character(first_character(text.substr(letter)).code)) break;
        begin = letter;
      }
      parts.emplace_back(text.substr(begin));
      text = without_spaces_at_end(text.substr(0, begin));
    }
    text.remove_prefix(spaces_at(text));
    if (!text.empty()) parts.emplace_back(text);
  } else {
    if (separator->empty()) throw TemplateError("rsplit: the separator is empty");
    for (;; most--) {
      const size_t found = most == 0 ? std::string_view::npos : text.rfind(*separator);
      if (found == std::string_view::npos) break;
      parts.emplace_back(text.substr(found + separator->size()));
      text = text.substr(0, found);
    }
    parts.emplace_back(text);
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string> lines_of(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find_first_of("\n\r\v\f\x1c\x1d\x1e");
    if (end == std::string_view::npos) {
      lines.emplace_back(text);
      break;
    }
    const size_t after = end + (text[end] == '\r' && end + 1 < text.size() && text[end + 1] == '\n' ? 2 : 1);
    lines.emplace_back(text.substr(0, keep_ends ? after : end));
    text.remove_prefix(after);
  }
  return lines;
}

}  // namespace quern::llm
