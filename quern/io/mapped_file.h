// A file as memory. What is written to it stays in this process; what others write to the file while it is
// mapped may show. A file that others make shorter must not be read any more: check() tells.
#pragma once

#include <sys/types.h>

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

  // An Error if the file is shorter than it was. It is asked for by its name, so that thousands of files may
  // be mapped where few may be open; a file that has another name by now, or none, is not looked at.
  void check() const;

 private:
  MappedFile(const std::string& path, dev_t device, ino_t number);
  std::span<std::byte> bytes_;
  std::string path_;  // from the root
  dev_t device_;      // these two tell whether the name still means this file
  ino_t number_;
};

}  // namespace quern::io
