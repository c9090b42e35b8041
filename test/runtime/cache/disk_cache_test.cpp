// Entries on disk: found again, never trusted too much, never too many.
#include "quern/runtime/cache/disk_cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "quern/base/env.h"
#include "quern/base/file.h"
#include "test/runtime/temporary_folder.h"

namespace quern {
namespace {

using testing::Eq;
using testing::HasSubstr;
using testing::Optional;

constexpr int64_t kMiB = 1 << 20;

size_t files_in(const std::string& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) count++;
  return count;
}
void overwrite(const std::string& path, const std::string& bytes) {  // in place: its mode stays
  std::ofstream(path, std::ios::trunc | std::ios::binary) << bytes;
}

class CacheOnDisk : public testing::Test {
 protected:
  TemporaryFolder temporary_;
  std::string folder_ = temporary_ / "a/b/cache";
  DiskCache cache_{folder_, kMiB};
  std::string file_ = folder_ + "/" + DiskCache::file_of("key");
};

TEST_F(CacheOnDisk, WhatIsStoredIsFound) {
  EXPECT_EQ(cache_.problem(), "");
  EXPECT_EQ(cache_.find("key"), std::nullopt);
  cache_.store("key", "value");
  cache_.store("other", std::string(100000, '\0'));
  cache_.store("", "");
  EXPECT_THAT(cache_.find("key"), Optional(Eq("value")));
  EXPECT_THAT(cache_.find("other"), Optional(Eq(std::string(100000, '\0'))));
  EXPECT_THAT(cache_.find(""), Optional(Eq("")));
  cache_.store("key", "new value");
  EXPECT_THAT(DiskCache(folder_, kMiB).find("key"), Optional(Eq("new value")));
  EXPECT_EQ(files_in(folder_), 3U) << "nothing unfinished is left";
  struct stat s = {};
  ASSERT_EQ(::stat(file_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(folder_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777U, 0700U);
}

TEST_F(CacheOnDisk, DamagedEntriesAreNotFoundAndCanBeReplaced) {
  cache_.store("key", "some value");
  const std::string good = read_file(file_);
  for (size_t i = 0; i < good.size(); i++) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    overwrite(file_, bad);
    EXPECT_EQ(cache_.find("key"), std::nullopt) << "byte " << i << " is another";
    overwrite(file_, good.substr(0, i));
    EXPECT_EQ(cache_.find("key"), std::nullopt) << "only " << i << " bytes";
  }
  overwrite(file_, good + "x");
  EXPECT_EQ(cache_.find("key"), std::nullopt);
  cache_.store("key", "some value");
  EXPECT_THAT(cache_.find("key"), Optional(Eq("some value")));
}

TEST_F(CacheOnDisk, EntriesOfAnotherKeyAreNotFound) {
  cache_.store("key", "value");
  std::filesystem::copy_file(file_, folder_ + "/" + DiskCache::file_of("yek"));
  EXPECT_EQ(cache_.find("yek"), std::nullopt);
}

TEST_F(CacheOnDisk, FilesThatOthersMayWriteAreNotUsed) {
  cache_.store("key", "value");
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(::chmod(file_.c_str(), mode), 0);
    EXPECT_EQ(cache_.find("key"), std::nullopt) << mode;
  }
  ASSERT_EQ(::chmod(file_.c_str(), 0644), 0);
  EXPECT_THAT(cache_.find("key"), Optional(Eq("value"))) << "others may read it";
  std::filesystem::rename(file_, folder_ + "/elsewhere");
  std::filesystem::create_symlink(folder_ + "/elsewhere", file_);
  EXPECT_EQ(cache_.find("key"), std::nullopt) << "a link";
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(cache_.find("key"), std::nullopt) << "a pipe";
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  std::filesystem::remove(file_);
  cache_.store("key", "value");
  ASSERT_EQ(::chown(file_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(cache_.find("key"), std::nullopt);
}

TEST_F(CacheOnDisk, FoldersThatOthersMayWriteAreNotUsed) {
  cache_.store("key", "value");
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  DiskCache open(folder_, kMiB);
  EXPECT_EQ(open.problem(), "others may write to it (mode 777)");
  EXPECT_EQ(open.find("key"), std::nullopt);
  open.store("key2", "value");
  EXPECT_EQ(files_in(folder_), 1U);
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  EXPECT_EQ(DiskCache(folder_, kMiB).problem(), "");
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
  ASSERT_EQ(::chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(DiskCache(folder_, kMiB).problem(), "it belongs to user 12345");
}

TEST_F(CacheOnDisk, WhereNothingCanBeWrittenNothingIsKept) {
  DiskCache below_a_file("/dev/null/cache", kMiB), of_the_system("/proc/cache", kMiB), nowhere("", kMiB);
  for (DiskCache* cache : {&below_a_file, &of_the_system, &nowhere}) {
    EXPECT_NE(cache->problem(), "");
    cache->store("key", "value");
    EXPECT_EQ(cache->find("key"), std::nullopt);
  }
  std::filesystem::remove_all(folder_);  // under an open cache
  cache_.store("key", "value");
  EXPECT_EQ(cache_.find("key"), std::nullopt);
}

TEST_F(CacheOnDisk, FullDisk) {
  // A file system of its own would need rights that tests do not have; a limit on the size of files fails
  // writes in the same place.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit most{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &most);
    cache_.store("key", std::string(1000, 'x'));
    ::_exit(cache_.find("key") ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files_in(folder_), 0U);
}

TEST_F(CacheOnDisk, WhatWasNotUsedForLongestGoes) {
  DiskCache small(folder_, 100'000);
  auto key = [](int i) { return fmt::format("key {}", i); };
  auto set_age = [&](int i, int hours) {
    const auto time = std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours);
    std::filesystem::last_write_time(folder_ + "/" + DiskCache::file_of(key(i)), time);
  };
  for (int i = 0; i < 9; i++) small.store(key(i), std::string(10'000, 'x')), set_age(i, 100 - i);
  EXPECT_TRUE(small.find(key(0))) << "used now";
  for (int i = 9; i < 12; i++) small.store(key(i), std::string(10'000, 'x'));
  EXPECT_TRUE(small.find(key(0)));
  EXPECT_FALSE(small.find(key(1)));
  EXPECT_FALSE(small.find(key(2)));
  for (int i = 6; i < 12; i++) EXPECT_TRUE(small.find(key(i))) << i;
  small.store("too large", std::string(200'000, 'x'));
  EXPECT_FALSE(small.find("too large"));
  for (int i = 6; i < 12; i++) EXPECT_TRUE(small.find(key(i))) << i;
  std::ofstream(folder_ + "/not ours") << std::string(200'000, 'x');
  small.store(key(12), std::string(10'000, 'x'));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/not ours"));
}

TEST_F(CacheOnDisk,
       SeveralProcesses) {  // all of them write and read the same entries, in a cache that is too small
  std::vector<pid_t> children;
  for (int child = 0; child < 4; child++) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      DiskCache shared(folder_, 60'000);
      for (int i = 0; i < 300; i++) {
        const std::string key = fmt::format("key {}", i * (child + 1) % 17),
                          value(5000 + key.size(), key.back());
        if (const auto found = shared.find(key); found && *found != value) ::_exit(1);
        shared.store(key, value);
      }
      ::_exit(0);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_EQ(entry.path().extension(), ".code");
}

TEST(DiskOfTheEnvironment, IsWhatItSays) {
  const TemporaryFolder temporary;
  const env::Override folder("QUERN_CACHE_DIR", temporary / "here");
  {
    const env::Override off("CACHE", 0);
    EXPECT_EQ(DiskCache::get(), nullptr);
    EXPECT_FALSE(std::filesystem::exists(temporary / "here"));
  }
  const env::Override on("CACHE", 1);
  ASSERT_NE(DiskCache::get(), nullptr);
  EXPECT_EQ(DiskCache::get(), DiskCache::get());
  EXPECT_EQ(DiskCache::get()->folder(), temporary / "here");
  EXPECT_TRUE(std::filesystem::exists(temporary / "here"));
  const env::Override nowhere("QUERN_CACHE_DIR", "/dev/null/cache");
  EXPECT_EQ(DiskCache::get(), nullptr);
}

}  // namespace
}  // namespace quern
