#include "quern/ir/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "quern/ir/error.h"

namespace quern {
namespace {

[[noreturn]] void refuse(std::string_view what, std::string_view path, int error) {
  throw Error(fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  bool open() const { return number_ >= 0; }
  int number() const { return number_; }
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

// False, with errno set, when the system refuses.
bool write_all(Descriptor& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return file.close();
}

}  // namespace

std::string read_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) refuse("read", path, errno);
  std::string bytes;
  while (true) {
    const size_t old = bytes.size();
    bytes.resize(old + old / 2 + 65536);
    const ssize_t got = ::read(file.number(), bytes.data() + old, bytes.size() - old);
    const int error = errno;
    bytes.resize(old + static_cast<size_t>(got > 0 ? got : 0));
    if (got == 0) return bytes;
    if (got < 0 && error != EINTR) refuse("read", path, error);
  }
}

void write_file(const std::string& path, std::string_view bytes) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path resolved = fs::canonical(path, ignored);  // what a link points to is replaced, not the link
  const std::string target = resolved.empty() ? path : resolved.string();
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    Descriptor file(::open(target.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.open() || !write_all(file, bytes)) refuse("write", path, errno);
    return;
  }
  static std::atomic<unsigned> made{0};
  const std::string beside = fmt::format("{}.{}.{}.new", target, ::getpid(), made.fetch_add(1));
  Descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.open()) refuse("write", path, errno);
  if (!write_all(file, bytes) || ::rename(beside.c_str(), target.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    refuse("write", path, error);
  }
}

}  // namespace quern
