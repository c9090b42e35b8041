// Files made by hand: bytes that a test writes down, and changes.
#pragma once

#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quern/base/error.h"

namespace quern::io {

// Numbers and texts one after the other.
class Draft {
 public:
  template <class Number>
  Draft& put(Number value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Draft& text(const std::string& text) {
    text_ += text;
    return *this;
  }
  Draft& fill(size_t multiple) {  // zeros up to there
    text_.resize((text_.size() + multiple - 1) / multiple * multiple);
    return *this;
  }
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

// Memory of exactly these bytes, so that sanitizers see what reads beyond.
struct Memory {
  std::shared_ptr<std::vector<std::byte>> bytes;
  explicit Memory(const std::string& text) : bytes(std::make_shared<std::vector<std::byte>>(text.size())) {
    if (!text.empty()) std::memcpy(bytes->data(), text.data(), text.size());
  }
  std::span<std::byte> span() const { return *bytes; }
};

// What `parse` says of these bytes, as of a file called "f"; "" if it takes them.
template <class Parse>
std::string error_in(const std::string& text, Parse parse) {
  const Memory memory(text);
  try {
    parse(memory.span(), std::string("f"), memory.bytes);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

inline void write_bytes(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace quern::io
