// A file as memory. What is written to it stays in this process; what others write to the file while it is
// mapped may show, and a file that others make shorter must not be read any more.
#pragma once

#include <memory>
#include <span>
#include <string>

namespace quern::io {

class MappedFile {
 public:
  static std::shared_ptr<MappedFile> open(const std::string& path);  // an Error names the file
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace quern::io
