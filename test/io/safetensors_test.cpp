// Files of safetensors: what is saved is loaded, and each field that may be wrong is refused.
#include "quern/io/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "quern/base/missing_file.h"
#include "test/error_of.h"
#include "test/io/bytes.h"
#include "test/runtime/temporary_folder.h"

namespace quern::io {
namespace {

using testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data) {
  return Draft().put<uint64_t>(header.size()).text(header).text(data).str();
}
std::string wrong_safetensors(const std::string& header, const std::string& data = std::string(8, '\0')) {
  return error_in(file_of(header, data),
                  [](auto bytes, const auto& name, const auto& keep) { safe_parse(bytes, name, keep); });
}

TEST(SafeTensors, EveryDtypeComesBack) {
  const TemporaryFolder folder;
  StateDict saved;
  for (const DType dtype : dtypes::all)
    saved.emplace(dtype.name(), Tensor::arange(6).reshape({2, 3}).cast(dtype));
  saved.emplace("of no axes", Tensor::full({}, 2.5F));
  saved.emplace("of no elements", Tensor::zeros({3, 0}));
  saved.emplace("computed", (Tensor::arange(4) * 2).flip(0));
  safe_save(saved, folder / "a", {{"format", "pt"}, {"\u00fc", "\"\\"}});
  const StateDict loaded = safe_load(folder / "a");
  ASSERT_EQ(loaded.size(), saved.size());
  for (const auto& [name, tensor] : saved) {
    ASSERT_TRUE(loaded.contains(name)) << name;
    EXPECT_EQ(loaded.at(name).dtype(), tensor.dtype()) << name;
    EXPECT_EQ(shape_text(loaded.at(name).shape()), shape_text(tensor.shape())) << name;
    EXPECT_EQ(loaded.at(name).bytes(), tensor.bytes()) << name;
  }
  EXPECT_EQ(safe_load_metadata(folder / "a"), (Metadata{{"format", "pt"}, {"\u00fc", "\"\\"}}));
}

TEST(SafeTensors, TheOrderOfTheNamesIsKept) {
  const TemporaryFolder folder;
  const NamedTensors saved = {
      {"b", Tensor::from<uint8_t>({1})}, {"c", Tensor::from<float>({2})}, {"a", Tensor::from<uint8_t>({3})}};
  safe_save_in_order(saved, folder / "x", {{"k", "v"}});
  const NamedTensors loaded = safe_load_in_order(folder / "x");
  ASSERT_EQ(loaded.size(), 3U);
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(loaded[i].first, saved[i].first);
    EXPECT_EQ(loaded[i].second.bytes(), saved[i].second.bytes());
  }
  EXPECT_THAT(safe_load_header(folder / "x"),
              testing::StartsWith(
                  R"({"__metadata__":{"k":"v"},"b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]})"));
  EXPECT_THAT(error_of([&] { safe_save_in_order({saved[0], saved[0]}, folder / "y"); }),
              HasSubstr("two tensors 'b'"));
}

TEST(SafeTensors, TensorsOutliveTheFileAndMayBeWritten) {
  const TemporaryFolder folder;
  safe_save({{"x", Tensor::from<float>({1, 2, 3})}}, folder / "a");
  const std::string before = read_bytes(folder / "a");
  const Tensor x = safe_load(folder / "a").at("x");
  x.assign(x * 2);
  x.realize();
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(read_bytes(folder / "a"), before);  // not in the file
  std::filesystem::remove(folder / "a");
  EXPECT_EQ((x + 1).to_vector<float>(), (std::vector<float>{3, 5, 7}));
}

TEST(SafeTensors, AFileMayBeSavedOverItself) {
  const TemporaryFolder folder;
  safe_save({{"x", Tensor::from<float>({1, 2, 3})}}, folder / "a");
  for (int i = 0; i < 3; i++) {
    StateDict all = safe_load(folder / "a");
    all.insert_or_assign("x", all.at("x") * 2);
    safe_save(all, folder / "a");
  }
  EXPECT_EQ(safe_load(folder / "a").at("x").to_vector<float>(), (std::vector<float>{8, 16, 24}));
}

TEST(SafeTensors, UnalignedDataIsCopied) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  const Memory memory(file_of(header, std::string("\7\0\0\x80\x3f", 5)));
  const StateDict all = safe_parse(memory.span(), "f", memory.bytes);
  EXPECT_EQ(all.at("b").to_vector<float>(), std::vector<float>{1});
  EXPECT_EQ(all.at("a").to_vector<uint8_t>(), std::vector<uint8_t>{7});
}

TEST(SafeTensorsErrors, AFileThatIsMissing) {
  EXPECT_EQ(error_of<MissingFileError>([] { safe_load("/no/such"); }), "/no/such: No such file or directory");
}

TEST(SafeTensors, EmptyFilesOfTensors) {
  const TemporaryFolder folder;
  safe_save({}, folder / "a");
  EXPECT_TRUE(safe_load(folder / "a").empty());
  EXPECT_EQ(wrong_safetensors("{}", ""), "");
  EXPECT_EQ(wrong_safetensors("{}    ", ""), "");
}

TEST(SafeTensorsErrors, EveryFieldOfTheHeader) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return fmt::format(R"({{"x":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
  };
  const std::string f32 = R"("F32")";
  ASSERT_EQ(wrong_safetensors(entry(f32, "[2]", "[0,8]")), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "does not begin with {"},
      {"[]", "does not begin with {"},
      {" {}", "does not begin with {"},
      {"{", "not JSON"},
      {"{}x", "not JSON"},
      {"{\"x\":\"\xff\"}", "not JSON"},
      {R"({"x":1})", "is no object"},
      {R"({"x":{}})", "has no dtype"},
      {R"({"x":{"dtype":"F32","shape":[2]}})", "has no data_offsets"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"y":1}})", "other fields"},
      {R"({"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "'dtype' stands in its header twice"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "'x' stands in its header twice"},
      {entry(R"("f32")", "[2]", "[0,8]"), "which quern does not know"},
      {entry("1", "[2]", "[0,8]"), "which quern does not know"},
      {entry(f32, "2", "[0,8]"), "no list of sizes"},
      {entry(f32, "[-2]", "[0,8]"), "expected a number from 0"},
      {entry(f32, "[2.0]", "[0,8]"), "expected a number from 0"},
      {entry(f32, "[1e400]", "[0,8]"), "f: "},
      {entry(f32, "[99999999999999999999]", "[0,8]"), "expected a number from 0"},
      {entry(f32, "[18446744073709551615]", "[0,8]"), "a size of 18446744073709551615"},
      {entry(f32, "[4294967296,4294967296,4294967296]", "[0,8]"), "its shape needs"},
      {entry(f32, "[281474976710656,0]", "[0,8]"), "its shape needs 0"},
      {entry(f32, "[3]", "[0,8]"), "has 8 bytes, its shape needs 12"},
      {entry(f32, "[2]", "[8,0]"), "stands at 8 to 0"},
      {entry(f32, "[2]", "[0,9]"), "stands at 0 to 9 of 8"},
      {entry(f32, "[2]", "[-8,0]"), "expected a number from 0"},
      {entry(f32, "[2]", "[0]"), "not two numbers"},
      {entry(f32, "[2]", "[0,8,8]"), "not two numbers"},
      {entry(f32, "[2]", "{}"), "not two numbers"},
      {entry(f32, "[2]", "[18446744073709551615,7]"), "stands at"},
      {entry(f32, "[1]", "[0,4]"), "4 bytes behind the last tensor"},
      {entry(f32, "[1]", "[4,8]"), "nothing stands at 0 to 4"},
      {R"({"__metadata__":[]})", "__metadata__ is no object"},
      {R"({"__metadata__":{"a":1}})", "'a' is not text"},
      {"{}", "8 bytes behind the last tensor"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       "overlaps"},
      {"{\"x\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", "too deeply"},
  };
  for (const auto& [header, says] : cases)
    EXPECT_THAT(wrong_safetensors(header), HasSubstr(says)) << header.substr(0, 200);
}

TEST(SafeTensorsErrors, LengthsOfTheHeader) {
  const auto parse = [](auto bytes, const auto& name, const auto& keep) { safe_parse(bytes, name, keep); };
  EXPECT_THAT(error_in("", parse), HasSubstr("it has 0 bytes"));
  EXPECT_THAT(error_in("1234567", parse), HasSubstr("it has 7 bytes"));
  for (const uint64_t length : {uint64_t{3}, uint64_t{100'000'000}})
    EXPECT_THAT(error_in(Draft().put(length).text("{}").str(), parse), HasSubstr("it is cut off"));
  for (const uint64_t length : {uint64_t{100'000'001}, ~uint64_t{0}, ~uint64_t{0} - 8})
    EXPECT_THAT(error_in(Draft().put(length).text("{}").str(), parse), HasSubstr("are allowed"));
}

// Whatever is cut off or changed: an Error, or a file that is right.
TEST(SafeTensorsErrors, EveryTruncation) {
  const std::string whole =
      file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", std::string(8, 'a'));
  for (size_t n = 0; n < whole.size(); n++)
    EXPECT_NE(error_in(whole.substr(0, n),
                       [](auto bytes, const auto& name, const auto& keep) { safe_parse(bytes, name, keep); }),
              "")
        << n;
}

TEST(SafeTensorsErrors, WhatCannotBeSaved) {
  const TemporaryFolder folder;
  const Dim n = Variable("n", 1, 4).bind(2);
  EXPECT_THAT(error_of<ShapeError>([&] { safe_save({{"x", Tensor::zeros({n})}}, folder / "a"); }),
              HasSubstr("symbolic size"));
  EXPECT_THAT(error_of([&] { safe_save({{"__metadata__", Tensor::zeros({1})}}, folder / "a"); }),
              HasSubstr("__metadata__"));
  EXPECT_THAT(error_of([&] { safe_save({{"\xff", Tensor::zeros({1})}}, folder / "a"); }), HasSubstr("UTF-8"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafeTensorsErrors, Paths) {
  const TemporaryFolder folder;
  const StateDict one{{"x", Tensor::zeros({1})}};
  EXPECT_THAT(error_of([&] { safe_load(folder / "none"); }), HasSubstr("none: No such file"));
  EXPECT_THAT(error_of([&] { safe_load(folder.path()); }), HasSubstr("is not a file"));
  EXPECT_THAT(error_of([&] { safe_save(one, folder.path()); }), HasSubstr("is a folder"));
  EXPECT_THAT(error_of([&] { safe_save(one, folder / "none/a"); }), HasSubstr("cannot be written"));
  EXPECT_THAT(error_of([&] { safe_save(one, ""); }), HasSubstr("without a name"));
}

TEST(WriteFile, KeepsTheRightsOfTheOldFileAndFollowsLinks) {
  const TemporaryFolder folder;
  const StateDict one{{"x", Tensor::zeros({1})}};
  safe_save(one, folder / "a");
  ASSERT_EQ(::chmod((folder / "a").c_str(), 0600), 0);
  std::filesystem::create_symlink("a", folder / "link");
  safe_save({{"y", Tensor::zeros({1})}}, folder / "link");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_TRUE(safe_load(folder / "a").contains("y"));
  EXPECT_EQ(std::filesystem::status(folder / "a").permissions(), std::filesystem::perms(0600));
}

// As when the disk is full: the old file stays, and nothing is left beside it.
TEST(WriteFile, AFailedWriteLeavesTheOldFile) {
  const TemporaryFolder folder;
  safe_save({{"x", Tensor::from<float>({1, 2})}}, folder / "a");
  const Tensor large = Tensor::ones({1 << 16}).contiguous().realize();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string said = error_of([&] { safe_save({{"x", large}}, folder / "a"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  EXPECT_THAT(said, HasSubstr("cannot be written: File too large"));
  EXPECT_EQ(safe_load(folder / "a").at("x").to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace quern::io
