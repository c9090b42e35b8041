// Arrays of NumPy, alone and in archives.
#include "quern/io/npy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "quern/io/zip.h"
#include "test/error_of.h"
#include "test/io/bytes.h"
#include "test/runtime/temporary_folder.h"

namespace quern::io {
namespace {

using testing::HasSubstr;

std::string npy(const std::string& header, const std::string& data, uint8_t version = 1) {
  Draft d;
  d.text("\x93NUMPY").put(version).put<uint8_t>(0);
  if (version == 1)
    d.put(static_cast<uint16_t>(header.size()));
  else
    d.put(static_cast<uint32_t>(header.size()));
  return d.text(header).text(data).str();
}
std::string header(const std::string& descr, const std::string& order, const std::string& shape) {
  return fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}   \n", descr, order, shape);
}
Tensor parsed(const std::string& text) {
  const Memory memory(text);
  return npy_parse(memory.span(), "f", memory.bytes);
}
std::string wrong_npy(const std::string& text) {
  return error_in(text, [](auto bytes, const auto& name, const auto& keep) { npy_parse(bytes, name, keep); });
}
std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(Npy, EveryDtypeComesBack) {
  const TemporaryFolder folder;
  StateDict all;
  for (const DType dtype : dtypes::all)
    if (!dtype.is_fp8() && dtype != dtypes::bfloat16)
      all.emplace(dtype.name(), Tensor::arange(6).reshape({2, 3}).cast(dtype));
  all.emplace("scalar", Tensor::full({}, 2.5F));
  all.emplace("one axis", Tensor::arange(3));
  all.emplace("empty", Tensor::zeros({2, 0, 3}));
  npz_save(all, folder / "a.npz");
  const StateDict loaded = npz_load(folder / "a.npz");
  ASSERT_EQ(loaded.size(), all.size());
  for (const auto& [name, tensor] : all) {
    npy_save(tensor, folder / "a.npy");
    for (const Tensor& got : {npy_load(folder / "a.npy"), loaded.at(name)}) {
      EXPECT_EQ(got.dtype(), tensor.dtype()) << name;
      EXPECT_EQ(shape_text(got.shape()), shape_text(tensor.shape())) << name;
      EXPECT_EQ(got.bytes(), tensor.bytes()) << name;
    }
  }
}

TEST(Npy, OrdersOfAxesAndBytes) {
  const std::string data = bytes_of({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(parsed(npy(header("'<f4'", "True", "(3, 2)"), data)).to_vector<float>(),
            (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(parsed(npy(header("'<f4'", "False", "(3, 2)"), data)).to_vector<float>(),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(parsed(npy(header("'>i2'", "False", "(2,)"), std::string("\1\0\0\2", 4))).to_vector<int16_t>(),
            (std::vector<int16_t>{256, 2}));
  for (const uint8_t version : std::vector<uint8_t>{1, 2, 3})
    EXPECT_EQ(parsed(npy(header("\"|u1\"", "False", "()"), "a", version)).item<int>(), 'a');
  EXPECT_EQ(parsed(npy("{'shape': (1L,), 'fortran_order': False, 'descr': '|i1'}", "a")).item<int>(), 'a');
}

TEST(NpyErrors, EveryFieldOfTheHeader) {
  const std::string data(8, '\0'), good = header("'<f4'", "False", "(2,)");
  ASSERT_EQ(wrong_npy(npy(good, data)), "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {npy(header("'<f4'", "False", "(3,)"), data), "8 bytes of numbers, its shape (3,) of float32 needs 12"},
      {npy(header("'<f4'", "False", "(1,)"), data), "needs 4"},
      {npy(header("'<f4'", "False", "(0,)"), data), "needs 0"},
      {npy(header("'<f4'", "False", "(281474976710656, 281474976710656, 281474976710656)"), data), "needs"},
      {npy(header("'<f4'", "False", "(281474976710657,)"), data), "too large"},
      {npy(header("'<f4'", "False", "(99999999999999999999999,)"), data), "too large"},
      {npy(header("'<f4'", "False", "(-2,)"), data), "a size is missing"},
      {npy(header("'<f4'", "False", "(2)"), data), "no tuple"},
      {npy(header("'<f4'", "False", "2"), data), "'(' is missing"},
      {npy(header("'<f4'", "False", "(" + std::string(300, '1') + ",)"), data), "too large"},
      {npy(header("'<f4'", "False", "(2, 1" + std::string(64 * 3, ' ') + "(,"), data), "is missing"},
      {npy(header("'<f4'", "0", "(2,)"), data), "True or False"},
      {npy(header("'<f4'", "False", "(2,), 'more': 1"), data), "a key 'more'"},
      {npy(header("'<f4'", "False", "(2,), 'descr': '<f4'"), data), "'descr' stands twice"},
      {npy(header("'<c8'", "False", "(1,)"), data), "dtype '<c8'"},
      {npy(header("'|O'", "False", "(1,)"), data), "dtype '|O'"},
      {npy(header("'<M8[s]'", "False", "(1,)"), data), "dtype '<M8[s]'"},
      {npy(header("'|f4'", "False", "(2,)"), data), "dtype '|f4'"},
      {npy(header("''", "False", "(2,)"), data), "dtype ''"},
      {npy(header("[('a', '<f4')]", "False", "(2,)"), data), "records"},
      {npy(header("'<f\\x34'", "False", "(2,)"), data), "a text with \\"},
      {npy(header("'<f4", "False", "(2,)"), data), "is missing"},
      {npy("{'descr': '<f4', 'shape': (2,)}", data), "is missing"},
      {npy("{}", data), "is missing"},
      {npy("", data), "'{' is missing"},
      {npy(good + "x", data), "text behind it"},
      {npy("{'descr': '", data), "a text without an end"},
      {npy(good, data, 4), "version 4.0"},
      {npy(good, data, 0), "version 0.0"},
      {"\x93NUMPX\1" + npy(good, data).substr(7), "does not begin as one"},
      {Draft().text("\x93NUMPY\2").put<uint8_t>(0).put<uint32_t>(0xffffffff).str(), "are allowed"},
      {Draft().text("\x93NUMPY\1").put<uint8_t>(0).put<uint16_t>(100).str(), "it is cut off"},
  };
  for (const auto& [text, says] : cases) EXPECT_THAT(wrong_npy(text), HasSubstr(says)) << text;
  const std::string whole = npy(good, data);
  for (size_t n = 0; n < whole.size(); n++) EXPECT_NE(wrong_npy(whole.substr(0, n)), "") << n;
}

TEST(NpyErrors, WhatCannotBeSaved) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of<DTypeError>([&] { npy_save(Tensor::zeros({1}).bf16(), folder / "a"); }),
              HasSubstr("bfloat16, which NumPy does not have"));
  EXPECT_THAT(error_of<DTypeError>([&] { npz_save({{"x", Tensor::zeros({1}).bf16()}}, folder / "a"); }),
              HasSubstr("tensor 'x' is bfloat16"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// ---- Archives

std::string wrong_zip(const std::string& text) {
  return error_in(text, [](auto bytes, const auto& name, const auto& keep) { npz_parse(bytes, name, keep); });
}

// An archive of one or two entries, each field of which a test may change.
struct Archive {
  std::string name = "x.npy", local_name = "x.npy", data = npy(header("'|u1'", "False", "(2,)"), "ab");
  uint16_t flags = 0, method = 0, entries = 1, entries_here = 1, disk = 0;
  uint32_t size = static_cast<uint32_t>(data.size()), packed = size, at = 0, directory_more = 0,
           directory_at = 0;
  uint32_t checksum = 0, local_mark = 0x04034b50, mark = 0x02014b50;
  bool is_doubled = false;
  std::string extra;

  std::string str() const {
    Draft d;
    d.put(local_mark).put<uint16_t>(20).put(flags).put(method).put<uint32_t>(0).put<uint32_t>(0);
    d.put<uint32_t>(0).put<uint32_t>(0).put(static_cast<uint16_t>(local_name.size())).put<uint16_t>(0);
    d.text(local_name).text(data);
    const auto directory = static_cast<uint32_t>(d.str().size());
    for (int i = 0; i < (is_doubled ? 2 : 1); i++) {
      d.put(mark).put<uint16_t>(20).put<uint16_t>(20).put(flags).put(method).put<uint32_t>(0);
      d.put(checksum != 0 ? checksum : crc32_of(std::as_bytes(std::span(data)))).put(packed).put(size);
      d.put(static_cast<uint16_t>(name.size())).put(static_cast<uint16_t>(extra.size())).put<uint16_t>(0);
      d.put<uint16_t>(0).put<uint16_t>(0).put<uint32_t>(0).put(at).text(name).text(extra);
    }
    const auto bytes = static_cast<uint32_t>(d.str().size()) - directory;
    d.put<uint32_t>(0x06054b50).put(disk).put(disk).put(entries_here).put(entries);
    d.put(bytes + directory_more).put(directory + directory_at).put<uint16_t>(0);
    return d.str();
  }
};

TEST(ZipErrors, EveryField) {
  const Archive good;
  ASSERT_EQ(wrong_zip(good.str()), "");
  const auto with = [](auto change) {
    Archive a;
    change(a);
    return wrong_zip(a.str());
  };
  EXPECT_THAT(with([](Archive& a) { a.name = a.local_name = "x.txt"; }), HasSubstr("no array of NumPy"));
  EXPECT_THAT(with([](Archive& a) { a.local_name = "y.npy"; }), HasSubstr("is called 'y.npy'"));
  EXPECT_THAT(with([](Archive& a) { a.flags = 1; }), HasSubstr("encrypted"));
  EXPECT_THAT(with([](Archive& a) { a.method = 12; }), HasSubstr("method 12"));
  EXPECT_THAT(with([](Archive& a) { a.method = 8; }), HasSubstr("entry 'x.npy' "));
  EXPECT_THAT(with([](Archive& a) { a.entries = 2; }), HasSubstr("several files"));
  EXPECT_THAT(with([](Archive& a) { a.entries = a.entries_here = 2; }),
              HasSubstr("a directory of 2 entries"));
  EXPECT_THAT(with([](Archive& a) { a.entries = a.entries_here = 0; }), HasSubstr("ends after 0"));
  EXPECT_THAT(with([](Archive& a) { a.disk = 1; }), HasSubstr("several files"));
  EXPECT_THAT(with([](Archive& a) { a.size += 1; }), HasSubstr("is stored in"));
  EXPECT_THAT(with([](Archive& a) { a.size += 1, a.packed += 1; }), HasSubstr("reaches into the directory"));
  EXPECT_THAT(with([](Archive& a) { a.size = a.packed = 0xfffffffe; }), HasSubstr("cut off"));
  EXPECT_THAT(with([](Archive& a) { a.method = 8, a.size = 0x7fffffff; }), HasSubstr("cannot hold"));
  EXPECT_THAT(with([](Archive& a) { a.at = 1; }), HasSubstr("there is none"));
  EXPECT_THAT(with([](Archive& a) { a.at = 0xfffffffe; }), HasSubstr("stands at"));
  EXPECT_THAT(with([](Archive& a) { a.at = 0xffffffff; }), HasSubstr("stands at"));
  EXPECT_THAT(with([](Archive& a) {
                a.size = 0xffffffff;
                a.extra = Draft().put<uint16_t>(1).put<uint16_t>(4).put<uint32_t>(1).str();
              }),
              HasSubstr("too few long numbers"));
  EXPECT_THAT(with([](Archive& a) { a.directory_more = 1; }), HasSubstr("its directory stands at"));
  EXPECT_THAT(with([](Archive& a) { a.directory_at = 0xffffff00; }), HasSubstr("directory"));
  EXPECT_THAT(with([](Archive& a) { a.checksum = 1; }), HasSubstr("checksum"));
  EXPECT_THAT(with([](Archive& a) { a.mark = 1; }), HasSubstr("no entry of a directory"));
  EXPECT_THAT(with([](Archive& a) { a.local_mark = 1; }), HasSubstr("there is none"));
  EXPECT_THAT(with([](Archive& a) { a.is_doubled = true, a.entries = a.entries_here = 2; }),
              HasSubstr("twice"));
  const std::string whole = good.str();
  for (size_t n = 0; n < whole.size(); n++) EXPECT_NE(wrong_zip(whole.substr(0, n)), "") << n;
}

TEST(Zip, LongNumbersAndComments) {
  Archive a;
  a.extra = Draft()
                .put<uint16_t>(7)
                .put<uint16_t>(1)
                .text("x")
                .put<uint16_t>(1)
                .put<uint16_t>(24)
                .put<uint64_t>(a.size)
                .put<uint64_t>(a.packed)
                .put<uint64_t>(0)
                .str();
  a.size = a.packed = a.at = 0xffffffff;
  EXPECT_EQ(wrong_zip(a.str()), "");
  std::string text = Archive().str();
  text[text.size() - 2] = 3;
  EXPECT_EQ(wrong_zip(text + "abc"), "");
}

}  // namespace
}  // namespace quern::io
