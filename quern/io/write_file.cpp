#include "quern/io/write_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "quern/ir/error.h"

namespace quern::io {
namespace {

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Of a file that is there already: who may read and write it.
mode_t mode_of(const std::string& path) {
  struct stat facts = {};
  return ::stat(path.c_str(), &facts) == 0 ? facts.st_mode & 07777U : 0666U;
}

}  // namespace

void NewFile::fail(const char* what) {
  const int reason = errno;
  throw Error(
      fmt::format("{}: {}: {}", path_, what, std::strerror(reason)));  // NOLINT(concurrency-mt-unsafe)
}

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  static std::atomic<uint64_t> next{0};
  if (path_.empty()) throw Error("a file cannot be written without a name");
  if (std::filesystem::is_symlink(path_)) path_ = std::filesystem::weakly_canonical(path_).string();
  if (std::filesystem::is_directory(path_)) throw Error(fmt::format("{} is a folder", path_));
  temporary_ = fmt::format("{}.{}.{}.part", path_, ::getpid(), next++);
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_of(path_));
  if (file_ < 0) fail("cannot be written");
}

NewFile::~NewFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void NewFile::finish() {
  if (::fsync(file_) != 0) fail("cannot be written");
  const int file = std::exchange(file_, -1);
  if (::close(file) != 0) fail("cannot be written");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be replaced");
  temporary_.clear();
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // it is there; whether after a loss of power too, nobody can say
  ::fsync(folder);
  ::close(folder);
}

}  // namespace quern::io
