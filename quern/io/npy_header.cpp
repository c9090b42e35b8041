#include "quern/io/npy_header.h"

#include <fmt/format.h>

#include <set>

namespace quern::io {
namespace {

constexpr size_t kMostNpyAxes = 64;
constexpr int64_t kMostSize = int64_t{1} << 48;
constexpr uint32_t kMostNpyHeader = 1 << 20;

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and nothing else of Python.
class Literal {
 public:
  Literal(std::string_view text, const ByteReader& in) : text_(text), in_(in) {}

  NpyHeader header() {
    NpyHeader result;
    std::set<std::string> keys;
    need('{');
    while (!taken('}')) {
      const std::string key = quoted();
      if (!keys.insert(key).second) refuse(fmt::format("'{}' stands twice", key));
      need(':');
      if (key == "descr")
        result.dtype = dtype();
      else if (key == "fortran_order")
        result.is_fortran_order = boolean();
      else if (key == "shape")
        result.shape = shape();
      else
        refuse(fmt::format("a key '{}'", key));
      if (taken('}')) break;
      need(',');
    }
    skip_space();
    if (at_ != text_.size()) refuse("text behind it");
    if (keys.size() != 3) refuse("descr, fortran_order or shape is missing");
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    in_.refuse(fmt::format("its header: {}, at its character {}", why, at_));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) at_++;
  }
  bool taken(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    at_++;
    return true;
  }
  void need(char c) {
    if (!taken(c)) refuse(fmt::format("a '{}' is missing", c));
  }
  std::string dtype() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') refuse("an array of records, which quern does not have");
    return quoted();
  }
  std::string quoted() {
    const char quote = taken('"') ? '"' : '\'';
    if (quote == '\'') need('\'');
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) refuse("a text without an end");
    const std::string_view inside = text_.substr(at_, end - at_);
    if (inside.find('\\') != std::string_view::npos) refuse("a text with \\");
    at_ = end + 1;
    return std::string(inside);
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)})
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::string_view(word).size();
        return value;
      }
    refuse("True or False is missing");
  }
  int64_t size() {
    skip_space();
    const size_t begin = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; at_++) {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMostSize) refuse("a size that is too large");
    }
    if (at_ == begin) refuse("a size is missing");
    if (at_ < text_.size() && text_[at_] == 'L') at_++;  // as Python 2 wrote it
    return value;
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    need('(');
    while (!taken(')')) {
      if (sizes.size() == kMostNpyAxes) refuse("too many axes");
      sizes.push_back(size());
      if (taken(',')) continue;
      if (sizes.size() == 1) refuse("a shape that is no tuple");
      need(')');
      break;
    }
    return sizes;
  }

  std::string_view text_;
  const ByteReader& in_;
  size_t at_ = 0;
};

}  // namespace

NpyHeader read_npy_header(ByteReader& in) {
  if (in.text(6, "its first bytes") != "\x93NUMPY") in.refuse("it does not begin as one");
  const auto major = in.number<uint8_t>("its version"), minor = in.number<uint8_t>("its version");
  if (major < 1 || major > 3 || minor != 0)
    in.refuse(fmt::format("version {}.{}; quern reads 1.0, 2.0 and 3.0", major, minor));
  const uint32_t length = major == 1 ? in.number<uint16_t>("the length of its header")
                                     : in.number<uint32_t>("the length of its header");
  if (length > kMostNpyHeader)
    in.refuse(fmt::format("a header of {} bytes; {} are allowed", length, kMostNpyHeader));
  const std::string text = in.text(length, "its header");
  return Literal(text, in).header();
}

}  // namespace quern::io
