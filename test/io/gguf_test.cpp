// Files of GGUF: values of every type, as the package gguf has them (data/make_gguf.py), and wrong fields.
#include "quern/io/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quern/io/npy.h"
#include "test/io/bytes.h"

namespace quern::io {
namespace {

using testing::HasSubstr;

std::string wrong_gguf(const std::string& text) {
  return error_in(text,
                  [](auto bytes, const auto& name, const auto& keep) { gguf_parse(bytes, name, keep); });
}

template <class T>
T of(const Gguf& file, const std::string& key) {
  return std::get<T>(file.metadata.at(key).value);
}

TEST(Gguf, ValuesAreThoseOfThePackage) {
  const Gguf file = gguf_load("test/io/data/blocks.gguf");
  const StateDict expected = npz_load("test/io/data/blocks.npz");
  ASSERT_EQ(file.tensors.size(), expected.size());
  for (const auto& [name, tensor] : file.tensors) {
    const Tensor want = expected.at(name);
    EXPECT_EQ(shape_text(tensor.shape()), shape_text(want.shape())) << name;
    EXPECT_EQ(tensor.cast(want.dtype()).bytes(), want.bytes()) << name;
  }
  EXPECT_EQ(file.tensors.at("BF16").dtype(), dtypes::bfloat16);
  EXPECT_EQ(file.tensors.at("F16").dtype(), dtypes::float16);
}

TEST(Gguf, Metadata) {
  const Gguf file = gguf_load("test/io/data/blocks.gguf");
  EXPECT_EQ(of<std::string>(file, "general.architecture"), "test");
  EXPECT_EQ(of<uint64_t>(file, "test.uint32"), 7U);
  EXPECT_EQ(of<int64_t>(file, "test.int32"), -7);
  EXPECT_EQ(of<double>(file, "test.float32"), 0.5);
  EXPECT_EQ(of<bool>(file, "test.bool"), true);
  EXPECT_EQ(of<std::string>(file, "test.text"), "gr\u00fcn");
  const auto texts = of<std::vector<GgufValue>>(file, "test.texts");
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_EQ(std::get<std::string>(texts[2].value), "bc");
  EXPECT_EQ(std::get<int64_t>(of<std::vector<GgufValue>>(file, "test.numbers")[1].value), -2);
}

// The weights never stand in memory as floats: conversion and product are one kernel.
TEST(Gguf, BlocksBecomeNumbersWhereTheyAreUsed) {
  const Gguf file = gguf_load("test/io/data/blocks.gguf");
  for (const char* name : {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4"}) {
    const Tensor weight = file.tensors.at(name);
    const Tensor x = Tensor::ones({1, weight.size(1)}).contiguous().realize();
    const std::string steps = x.linear(weight.T()).schedule();
    EXPECT_EQ(std::count(steps.begin(), steps.end(), '\n'), 1) << name << "\n" << steps;
  }
}

// A file of one value and one tensor, each field of which a test may change.
struct Model {
  std::string magic = "GGUF", key = "k", name = "x", data = std::string(32, '\0'), value;
  uint32_t version = 3, kind = 4, axes = 1, type = 0, alignment_kind = 4;
  uint64_t tensors = 1, values = 1, key_size = 1, name_size = 1, size = 4, at = 0;
  bool is_doubled = false;
  uint64_t second_at = 32;

  std::string str() const {
    Draft d;
    d.text(magic).put(version).put(tensors).put(values).put(key_size).text(key).put(kind);
    if (value.empty())
      d.put<uint32_t>(1);
    else
      d.text(value);
    for (int i = 0; i < (is_doubled ? 2 : 1); i++) {
      d.put(name_size).text(i == 0 ? name : "y").put(axes);
      for (uint32_t a = 0; a < std::min(axes, 5U); a++) d.put(size);
      d.put(type).put(i == 0 ? at : second_at);
    }
    return d.fill(32).text(data).str();
  }
};

TEST(GgufErrors, EveryField) {
  ASSERT_EQ(wrong_gguf(Model().str()), "");
  const auto with = [](auto change) {
    Model m;
    change(m);
    return wrong_gguf(m.str());
  };
  const auto number = [](auto... parts) {
    Draft d;
    (d.put(parts), ...);
    return d.str();
  };
  EXPECT_THAT(with([](Model& m) { m.magic = "GGML"; }), HasSubstr("does not begin with GGUF"));
  EXPECT_THAT(with([](Model& m) { m.version = 1; }), HasSubstr("version 1"));
  EXPECT_THAT(with([](Model& m) { m.version = 4; }), HasSubstr("version 4"));
  EXPECT_THAT(with([](Model& m) { m.version = 0x03000000; }), HasSubstr("big endian"));
  EXPECT_THAT(with([](Model& m) { m.tensors = ~uint64_t{0}; }), HasSubstr("18446744073709551615 tensors in"));
  EXPECT_THAT(with([](Model& m) { m.tensors = 3; }), HasSubstr("f: "));
  EXPECT_THAT(with([](Model& m) { m.values = ~uint64_t{0}; }), HasSubstr("18446744073709551615 values in"));
  EXPECT_THAT(with([](Model& m) { m.key_size = ~uint64_t{0}; }),
              HasSubstr("a key of 18446744073709551615 bytes"));
  EXPECT_THAT(with([](Model& m) { m.key_size = 60000; }), HasSubstr("cut off"));
  EXPECT_THAT(with([](Model& m) { m.name_size = ~uint64_t{0} - 7; }), HasSubstr("the name of a tensor of"));
  EXPECT_THAT(with([](Model& m) { m.kind = 13; }), HasSubstr("'k' is of kind 13"));
  EXPECT_THAT(with([&](Model& m) { m.kind = 7, m.value = number(uint8_t{2}); }),
              HasSubstr("a bool of value 2"));
  EXPECT_THAT(with([&](Model& m) { m.kind = 8, m.value = number(~uint64_t{0}); }), HasSubstr("'k' of"));
  EXPECT_THAT(with([&](Model& m) { m.kind = 9, m.value = number(uint32_t{4}, ~uint64_t{0}); }),
              HasSubstr("elements of a list"));
  EXPECT_THAT(with([&](Model& m) { m.kind = 9, m.value = number(uint32_t{99}, uint64_t{1}); }),
              HasSubstr("kind 99"));
  EXPECT_THAT(with([&](Model& m) {
                m.kind = 9;
                for (int i = 0; i < 5; i++) m.value += number(uint32_t{9}, uint64_t{1});
                m.data.resize(1000);
              }),
              HasSubstr("too deeply"));
  for (const uint32_t alignment : {0U, 4U, 33U, 1U << 31}) {
    EXPECT_THAT(with([&](Model& m) {
                  m.key = "general.alignment", m.key_size = m.key.size(), m.value = number(alignment);
                }),
                HasSubstr("general.alignment"));
  }
  EXPECT_THAT(with([&](Model& m) {
                m.key = "general.alignment", m.key_size = m.key.size(), m.kind = 6, m.value = number(32.0F);
              }),
              HasSubstr("general.alignment"));
  EXPECT_THAT(with([](Model& m) { m.axes = 5; }), HasSubstr("has 5 axes"));
  EXPECT_THAT(with([](Model& m) { m.size = ~uint64_t{0}; }), HasSubstr("a size of"));
  EXPECT_THAT(with([](Model& m) { m.axes = 4, m.size = uint64_t{1} << 48; }), HasSubstr("cut off"));
  EXPECT_THAT(with([](Model& m) { m.size = 9; }), HasSubstr("has 36 bytes at 0 of 32: it is cut off"));
  EXPECT_THAT(with([](Model& m) { m.type = 2; }), HasSubstr("has rows of 4; Q4_0 has blocks of 32"));
  EXPECT_THAT(with([](Model& m) { m.type = 4; }), HasSubstr("type 4, which quern does not read"));
  EXPECT_THAT(with([](Model& m) { m.type = ~0U; }), HasSubstr("which quern does not read"));
  EXPECT_THAT(with([](Model& m) { m.at = 4; }), HasSubstr("no multiple of 32"));
  EXPECT_THAT(with([](Model& m) { m.at = ~uint64_t{0} - 31; }), HasSubstr("cut off"));
  EXPECT_THAT(with([](Model& m) { m.tensors = 2, m.is_doubled = true, m.second_at = 0; }),
              HasSubstr("overlaps"));
  EXPECT_THAT(with([](Model& m) { m.tensors = 2, m.is_doubled = true, m.name = "y", m.data.resize(64); }),
              HasSubstr("'y' stands in it twice"));
  Model twice;
  twice.values = 2,
  twice.value = Draft().put<uint32_t>(1).put<uint64_t>(1).text("k").put<uint32_t>(4).put<uint32_t>(1).str();
  EXPECT_THAT(wrong_gguf(twice.str()), HasSubstr("the key 'k' stands in it twice"));
}

TEST(GgufErrors, EveryTruncation) {
  const std::string whole = read_bytes("test/io/data/blocks.gguf");
  ASSERT_FALSE(whole.empty());
  for (size_t n = 0; n < whole.size() - 32;
       n += n < 1600 ? 1 : 61)  // up to 31 bytes of padding stand at the end
    EXPECT_NE(wrong_gguf(whole.substr(0, n)), "") << n;
}

TEST(Gguf, EmptyOnes) {
  Model m;
  m.size = 0;
  EXPECT_EQ(wrong_gguf(m.str()), "");
  m.type = 12;
  EXPECT_EQ(wrong_gguf(m.str()), "");
  EXPECT_EQ(wrong_gguf(Draft().text("GGUF").put<uint32_t>(3).put<uint64_t>(0).put<uint64_t>(0).str()), "");
}

}  // namespace
}  // namespace quern::io
