// Bytes kept on disk by content, for the next process: compiled kernels. A file an entry, in a folder that
// belongs to the user and that nobody else can write to; several processes may use it at once. What is not
// there, damaged, or not to be trusted is not found; what cannot be written is not kept. Nothing here throws.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern {

class DiskCache {
 public:
  // That of the environment (CACHE, QUERN_CACHE_DIR, CACHE_LIMIT); none if there is to be none, or there
  // cannot be.
  static DiskCache* get();

  // The folder is made if there is none. `limit` bytes are the most that it holds.
  DiskCache(const std::string& folder, int64_t limit);
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;
  ~DiskCache();

  // Why the folder is not used; "" if it is.
  const std::string& problem() const { return problem_; }
  const std::string& folder() const { return folder_; }

  std::optional<std::string> find(std::string_view key) const;
  void store(std::string_view key, std::string_view value);

  static std::string file_of(std::string_view key);  // in the folder

 private:
  void remove_oldest() const;

  std::string folder_, problem_;
  int64_t limit_;
  int descriptor_ = -1;                      // of the folder
  mutable std::atomic<uint64_t> stored_{0};  // numbers files that are being written
};

}  // namespace quern
