#include "quern/io/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "quern/ir/missing_file.h"

namespace quern::io {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void refuse(const std::string& path) {
  const int reason = errno;
  const std::string text =
      fmt::format("{}: {}", path, std::strerror(reason));  // NOLINT(concurrency-mt-unsafe)
  if (reason == ENOENT) throw MissingFileError(text);
  throw Error(text);
}

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) refuse(path);
  struct stat facts = {};
  if (::fstat(file.number, &facts) != 0) refuse(path);
  if (!S_ISREG(facts.st_mode)) throw Error(fmt::format("{} is not a file", path));
  const auto size = static_cast<size_t>(facts.st_size);
  if (size == 0) return std::shared_ptr<MappedFile>(new MappedFile({}));
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.number, 0);
  if (memory == MAP_FAILED) refuse(path);  // NOLINT: a macro with a cast
  return std::shared_ptr<MappedFile>(new MappedFile({static_cast<std::byte*>(memory), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace quern::io
