// Files, as all of quern opens them. An Error names the path and what the system said.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace quern {

// The path for the system, which takes a NUL byte for its end: an Error if there is one in it.
const char* system_path(const std::string& path);

// What the system calls neither a file nor a link, in words: "a folder", "a pipe", "a device".
const char* kind_of_file(const struct stat& facts);

// Closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  bool close();  // false, with errno set, if the system found now that it could not write

 private:
  int number_;
};

// A plain file to be read, and what the system says of it. What is no plain file is refused, without waiting
// for the other end of a pipe. Errors begin with `who`.
std::pair<Descriptor, struct stat> open_to_read(const std::string& path, std::string_view who = "");

// All that there is to read, be it from a file, a pipe or a device.
std::string read_file(const std::string& path);

// A file that is there whole or not at all: it is written beside the old one by calls of write(), and
// takes its place by finish(), when all of it is on disk. Without finish() the old file stays. What is no
// plain file (a pipe, a device) is never replaced: it is written to as it stands, at once.
class NewFile {
 public:
  explicit NewFile(std::string path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(std::span<const std::byte> bytes);  // an Error if the disk is full
  void finish();

 private:
  [[noreturn]] void fail(const char* what) const;
  bool is_in_place() const { return temporary_.empty(); }
  std::string path_, target_;  // as it was given, and where links lead
  std::string temporary_;
  Descriptor file_{-1};
};

// A NewFile, at once.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace quern
