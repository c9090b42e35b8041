// Reads numbers and texts one after the other from memory that may hold anything: what is not there is an
// Error that names the file.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace quern::io {

// Numbers of files are little endian, as those of the machines that quern runs on.
template <class Number>
Number number_at(std::span<const std::byte> bytes) {  // which are enough
  static_assert(std::is_arithmetic_v<Number>);
  Number value;
  std::memcpy(&value, bytes.data(), sizeof(Number));
  return value;
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};  // NOLINT: bytes are characters
}

class ByteReader {
 public:
  // `file` and `format` stand in errors.
  ByteReader(std::span<std::byte> bytes, std::string file, std::string format)
      : bytes_(bytes), file_(std::move(file)), format_(std::move(format)) {}

  [[noreturn]] void refuse(std::string_view why) const;

  std::span<std::byte> all() const { return bytes_; }
  uint64_t position() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  std::span<std::byte> take(uint64_t count, std::string_view what);  // `what` it is, for the error
  template <class Number>
  Number number(std::string_view what) {
    return number_at<Number>(take(sizeof(Number), what));
  }
  std::string text(uint64_t length, std::string_view what) {
    return std::string(text_of(take(length, what)));
  }

  void go_to(uint64_t position, std::string_view what);  // somewhere else

 private:
  std::span<std::byte> bytes_;
  std::string file_, format_;
  uint64_t at_ = 0;
};

}  // namespace quern::io
