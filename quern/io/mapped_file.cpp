#include "quern/io/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "quern/base/error.h"
#include "quern/base/file.h"

namespace quern::io {

MappedFile::MappedFile(const std::string& path, dev_t device, ino_t number)
    : path_(std::filesystem::absolute(path).string()), device_(device), number_(number) {}

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path) {
  const auto [file, facts] = open_to_read(path);
  std::shared_ptr<MappedFile> made(new MappedFile(path, facts.st_dev, facts.st_ino));
  const auto size = static_cast<size_t>(facts.st_size);
  if (size == 0) return made;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.number(), 0);
  if (memory == MAP_FAILED)  // NOLINT: a macro with a cast
    throw Error(fmt::format("{}: {}", path, std::generic_category().message(errno)));
  made->bytes_ = {static_cast<std::byte*>(memory), size};
  return made;
}

void MappedFile::check() const {
  struct stat now = {};
  if (::stat(path_.c_str(), &now) != 0 || now.st_dev != device_ || now.st_ino != number_) return;
  if (static_cast<size_t>(now.st_size) < bytes_.size())
    throw Error(
        fmt::format("{}: the file has {} bytes, and had {} when it was loaded: it was cut off or "
                    "overwritten since, so that its tensors are lost",
                    path_, now.st_size, bytes_.size()));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace quern::io
