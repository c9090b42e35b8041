#include "quern/runtime/cache/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <system_error>
#include <vector>

#include "quern/base/env.h"
#include "quern/ir/node/arg.h"

namespace quern {
namespace {

// An entry: this, the key, the value.
struct Header {
  char magic[8];
  uint64_t key_bytes, value_bytes;
  uint64_t checksum;  // of key and value
};
constexpr char kMagic[8] = {'q', 'u', 'e', 'r', 'n', ' ', '0', '1'};
constexpr std::string_view kSuffix = ".code";
constexpr int64_t kScansToALimit =
    64;  // the folder is looked through each time this part of its limit is written

uint64_t hash_of(std::string_view bytes, uint64_t seed) {
  uint64_t hash = detail::mix(seed, bytes.size());
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t part = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), part);
    hash = detail::mix(hash, word);
    bytes.remove_prefix(part);
  }
  return hash;
}

std::string reason(int error) { return std::generic_category().message(error); }

struct Open {
  explicit Open(int opened) : number(opened) {}
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  ~Open() {
    if (number >= 0) ::close(number);
  }
  int number;
};

// Why something that is open is not to be trusted; "" if it is. It is asked of the open file: a name could
// mean another one a moment later.
std::string distrust(const struct stat& s) {
  if (s.st_uid != ::geteuid()) return fmt::format("it belongs to user {}", s.st_uid);
  if ((s.st_mode & 022U) != 0) return fmt::format("others may write to it (mode {:o})", s.st_mode & 0777U);
  return "";
}

bool read_all(int file, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::read(file, to, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got, bytes -= static_cast<size_t>(got);
  }
  return true;
}
bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

std::string folder_of_environment() {
  auto variable = [](const char* name) -> std::string {
    const char* found = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): quern never sets one
    return found == nullptr ? "" : found;
  };
  if (!env::QUERN_CACHE_DIR().empty()) return env::QUERN_CACHE_DIR();
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/quern";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/quern";
}

}  // namespace

DiskCache* DiskCache::get() {
  if (env::CACHE() == 0) return nullptr;
  // One at a time is open; those before it are kept, as others may use them still.
  static std::mutex mutex;
  static auto* const opened =
      new std::vector<std::unique_ptr<DiskCache>>;  // NOLINT(cppcoreguidelines-owning-memory)
  static const std::string* named = nullptr;        // texts of the environment are one for each value
  static int64_t limit = 0;
  const std::lock_guard lock(mutex);
  if (named != &env::QUERN_CACHE_DIR() || limit != env::CACHE_LIMIT()) {
    named = &env::QUERN_CACHE_DIR(), limit = env::CACHE_LIMIT();
    opened->push_back(std::make_unique<DiskCache>(folder_of_environment(), limit << 20));
    const DiskCache& cache = *opened->back();
    if (env::DEBUG() >= 1 && !cache.problem().empty())
      std::fputs(fmt::format("cache  {}: not used, {}\n", cache.folder(), cache.problem()).c_str(), stderr);
    if (env::DEBUG() >= 1 && cache.problem().empty())
      std::fputs(fmt::format("cache  {}\n", cache.folder()).c_str(), stderr);
  }
  return opened->back()->problem().empty() ? opened->back().get() : nullptr;
}

DiskCache::DiskCache(const std::string& folder, int64_t limit) : folder_(folder), limit_(limit) {
  if (folder.empty()) {
    problem_ = "there is no home folder";
    return;
  }
  std::error_code ignored;
  const std::filesystem::path path(folder);
  std::filesystem::create_directories(
      path.has_filename() ? path.parent_path() : path.parent_path().parent_path(), ignored);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    problem_ = reason(errno);
    return;
  }
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat s = {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &s) != 0)
    problem_ = reason(errno);
  else
    problem_ = distrust(s);
}

DiskCache::~DiskCache() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string DiskCache::file_of(std::string_view key) {
  return fmt::format("{:016x}{:016x}{}", hash_of(key, 1), hash_of(key, 2), kSuffix);
}

std::optional<std::string> DiskCache::find(std::string_view key) const {
  if (!problem_.empty()) return {};
  const Open file(
      ::openat(descriptor_, file_of(key).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat s = {};
  if (file.number < 0 || ::fstat(file.number, &s) != 0 || !S_ISREG(s.st_mode)) return {};
  if (const std::string why = distrust(s); !why.empty()) {
    if (env::DEBUG() >= 1)
      std::fputs(fmt::format("cache  {}/{}: not used, {}\n", folder_, file_of(key), why).c_str(), stderr);
    return {};
  }
  Header header = {};
  const auto size = static_cast<uint64_t>(s.st_size);
  if (size < sizeof header + key.size() ||
      !read_all(file.number, reinterpret_cast<char*>(&header), sizeof header))
    return {};
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_bytes != key.size() ||
      header.value_bytes != size - sizeof header - key.size())
    return {};
  try {
    std::string found(key.size(), '\0'), value(header.value_bytes, '\0');
    if (!read_all(file.number, found.data(), found.size()) || found != key) return {};
    if (!read_all(file.number, value.data(), value.size())) return {};
    if (hash_of(value, hash_of(key, 3)) != header.checksum) return {};
    // When it was used last, to the hour: so that those that nobody uses can be told.
    struct timespec now = {};
    ::clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec - s.st_mtim.tv_sec > 3600) ::futimens(file.number, nullptr);
    return value;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void DiskCache::store(std::string_view key, std::string_view value) {
  const auto bytes = static_cast<int64_t>(sizeof(Header) + key.size() + value.size());
  if (!problem_.empty() || bytes > limit_) return;
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_bytes = key.size(), header.value_bytes = value.size();
  header.checksum = hash_of(value, hash_of(key, 3));
  const std::string name = file_of(key),
                    beside = fmt::format("{}.{}.{}.new", name, ::getpid(), stored_.fetch_add(1));
  {
    const Open file(
        ::openat(descriptor_, beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const bool written =
        file.number >= 0 &&
        write_all(file.number, std::string_view(reinterpret_cast<const char*>(&header), sizeof header)) &&
        write_all(file.number, key) && write_all(file.number, value);
    if (!written || ::renameat(descriptor_, beside.c_str(), descriptor_, name.c_str()) != 0) {
      if (env::DEBUG() >= 1)
        std::fputs(fmt::format("cache  {}: not written, {}\n", folder_, reason(errno)).c_str(), stderr);
      if (file.number >= 0) ::unlinkat(descriptor_, beside.c_str(), 0);
      return;
    }
  }
  // To look through the folder takes a while if it is large. On average it is done once for a small part of
  // the limit, whoever writes it.
  thread_local std::minstd_rand random(std::random_device{}());
  const int64_t part = std::max<int64_t>(1, limit_ / kScansToALimit);
  if (std::uniform_int_distribution<int64_t>(0, part - 1)(random) < bytes) remove_oldest();
}

// Until a sixteenth of the limit is free.
void DiskCache::remove_oldest() const {
  struct Entry {
    int64_t used, bytes;
    std::string name;
  };
  const int copy = ::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  DIR* const folder = ::fdopendir(copy);
  if (folder == nullptr) {
    ::close(copy);
    return;
  }
  struct timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::vector<Entry> entries;
  int64_t total = 0;
  while (const dirent* item =
             ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): a stream of this thread's
    const std::string_view name(item->d_name);
    const bool unfinished = name.ends_with(".new");
    struct stat s = {};
    if ((!unfinished && !name.ends_with(kSuffix)) ||
        ::fstatat(descriptor_, item->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode))
      continue;
    if (unfinished && now.tv_sec - s.st_mtim.tv_sec > 3600) ::unlinkat(descriptor_, item->d_name, 0);
    if (unfinished) continue;
    entries.push_back({s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec, s.st_size, std::string(name)});
    total += s.st_size;
  }
  ::closedir(folder);
  if (total <= limit_) return;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total <= limit_ - limit_ / 16) break;
    if (::unlinkat(descriptor_, entry.name.c_str(), 0) == 0) total -= entry.bytes;
  }
}

}  // namespace quern
