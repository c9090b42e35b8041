// Files that are read and written whole.
#include "quern/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "test/error_of.h"

namespace quern {
namespace {

using testing::HasSubstr;

TEST(File, IsReplacedWholeAndLeavesNothingBeside) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("quern_{}_folder", ::getpid())).string();
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/file", link = folder + "/link";
  write_file(path, "first");
  write_file(path, std::string(100'000, 'x'));
  EXPECT_EQ(read_file(path), std::string(100'000, 'x'));
  std::filesystem::create_symlink("file", link);
  write_file(link, "through");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_file(path), "through");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()),
            2);
  std::filesystem::remove_all(folder);
  write_file("/dev/null", "nothing");
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
}

TEST(File, APipeIsWrittenToAndNeverReplaced) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("quern_{}_pipe", ::getpid());
  std::filesystem::create_directory(folder);
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { open_to_read(pipe); }), HasSubstr("pipe is not a file: it is a pipe"));
  const Descriptor end(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  write_file(pipe, "through");
  std::array<char, 16> read = {};
  EXPECT_EQ(::read(end.number(), read.data(), read.size()), 7);
  EXPECT_EQ(std::string(read.data()), "through");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(File, ANameWithANulByteIsRefused) {
  const std::string path("/tmp/x\0y", 8);
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { read_file(path); }, [&] { write_file(path, "a"); }, [&] { open_to_read(path); }})
    EXPECT_EQ(error_of(use), "a path with a NUL byte: '/tmp/x\\0y'");
}

}  // namespace
}  // namespace quern
