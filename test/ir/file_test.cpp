// Files that are read and written whole.
#include "quern/ir/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

namespace quern {
namespace {

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

}  // namespace
}  // namespace quern
