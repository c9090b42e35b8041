// Files that are there whole or not at all: written beside the old one, which is replaced when all of it is
// on disk.
#pragma once

#include <span>
#include <string>

namespace quern::io {

// Writes by calls of write(), then takes the place of the old file by finish(). Without finish() the old file
// stays.
class NewFile {
 public:
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes);  // an Error if the disk is full
  void finish();

 private:
  [[noreturn]] void fail(const char* what);
  std::string path_, temporary_;
  int file_ = -1;
};

}  // namespace quern::io
