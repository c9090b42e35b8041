#include "quern/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "quern/base/missing_file.h"

namespace quern {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Where links lead, also to what is not there yet.
std::string behind_links(std::string path) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (int links = 0; links < 40 && fs::is_symlink(path, error); links++)
    path = (fs::path(path).parent_path() / fs::read_symlink(path, error)).string();
  return path;
}

}  // namespace

const char* system_path(const std::string& path) {
  if (const size_t nul = path.find('\0'); nul != std::string::npos)
    throw Error(fmt::format("a path with a NUL byte: '{}\\0{}'", path.substr(0, nul), path.substr(nul + 1)));
  return path.c_str();
}

const char* kind_of_file(const struct stat& facts) {
  switch (facts.st_mode & S_IFMT) {
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a pipe";
    case S_IFSOCK: return "a socket";
    case S_IFBLK:
    case S_IFCHR: return "a device";
    default: return "a file";
  }
}

bool Descriptor::close() { return number_ < 0 || ::close(std::exchange(number_, -1)) == 0; }

std::pair<Descriptor, struct stat> open_to_read(const std::string& path, std::string_view who) {
  Descriptor file(::open(system_path(path), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat facts = {};
  if (!file.is_open() || ::fstat(file.number(), &facts) != 0) {
    const int error = errno;
    const std::string text = fmt::format("{}{}: {}", who, path, reason(error));
    if (error == ENOENT) throw MissingFileError(text);
    throw Error(text);
  }
  if (!S_ISREG(facts.st_mode))
    throw Error(fmt::format("{}{} is not a file: it is {}", who, path, kind_of_file(facts)));
  return {std::move(file), facts};
}

std::string read_file(const std::string& path) {
  const auto fail = [&](int error) { throw Error(fmt::format("cannot read {}: {}", path, reason(error))); };
  const Descriptor file(::open(system_path(path), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail(errno);
  std::string bytes;
  while (true) {
    const size_t old = bytes.size();
    bytes.resize(old + old / 2 + 65536);
    const ssize_t got = ::read(file.number(), bytes.data() + old, bytes.size() - old);
    const int error = errno;
    bytes.resize(old + static_cast<size_t>(got > 0 ? got : 0));
    if (got == 0) return bytes;
    if (got < 0 && error != EINTR) fail(error);
  }
}

void NewFile::fail(const char* what) const {
  throw Error(fmt::format("{}: {}: {}", path_, what, reason(errno)));
}

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  static std::atomic<uint64_t> next{0};
  if (path_.empty()) throw Error("a file cannot be written without a name");
  struct stat facts = {};
  const bool is_there = ::stat(system_path(path_), &facts) == 0;
  if (!is_there && errno != ENOENT) fail("cannot be written");
  if (is_there && S_ISDIR(facts.st_mode)) throw Error(fmt::format("{} is a folder", path_));
  if (is_there && !S_ISREG(facts.st_mode)) {
    file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  } else {
    target_ = behind_links(path_);
    temporary_ = fmt::format("{}.{}.{}.part", target_, ::getpid(), next++);
    const mode_t mode = is_there ? facts.st_mode & 07777U : 0666U;
    file_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  }
  if (!file_.is_open()) fail("cannot be written");
}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done =
        ::write(file_.number(), bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void NewFile::finish() {
  if (!is_in_place() && ::fsync(file_.number()) != 0) fail("cannot be written");
  if (!file_.close()) fail("cannot be written");
  if (is_in_place()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be replaced");
  temporary_.clear();
  const Descriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open())  // else it is there; whether after a loss of power too, nobody can say
    ::fsync(folder.number());
}

void write_file(const std::string& path, std::string_view bytes) {
  NewFile file(path);
  file.write(std::as_bytes(std::span(bytes)));
  file.finish();
}

}  // namespace quern
