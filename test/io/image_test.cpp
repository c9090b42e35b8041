// Pictures (data/make_pictures.py): all kinds, and damaged ones.
#include "quern/io/image.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "test/error_of.h"
#include "test/io/bytes.h"
#include "test/runtime/temporary_folder.h"

namespace quern::io {
namespace {

using testing::HasSubstr;

const std::string kData = "test/io/data/";

std::string wrong_image(const std::string& text) {
  return error_in(text, [](auto bytes, const auto& name, const auto&) { image_parse(bytes, name); });
}

TEST(Image, Kinds) {
  for (const auto& [name, channels] : std::map<std::string, int>{{"rgb.png", 3},
                                                                 {"rgb.jpg", 3},
                                                                 {"progressive.jpg", 3},
                                                                 {"grey.png", 1},
                                                                 {"grey.jpg", 1},
                                                                 {"grey_with_opacity.png", 2},
                                                                 {"rgb_with_opacity.png", 4},
                                                                 {"palette.png", 3},
                                                                 {"sixteen_bits.png", 1}}) {
    const Tensor image = image_load(kData + name);
    EXPECT_EQ(image.dtype(), dtypes::uint8);
    EXPECT_EQ(shape_text(image.shape()), fmt::format("(16, 24, {})", channels)) << name;
  }
  EXPECT_THAT(error_of([] { image_load(kData + "cmyk.jpg"); }), HasSubstr("cmyk.jpg: "));
}

TEST(Image, Values) {
  const Tensor png = image_load(kData + "rgb.png");
  EXPECT_EQ(png.at({15, 23, 0}).item<int>(), 150);
  EXPECT_EQ(png.at({15, 23, 1}).item<int>(), 230);
  EXPECT_EQ(png.at({15, 23, 2}).item<int>(), 100);
  for (const char* name : {"rgb.jpg", "progressive.jpg"})
    EXPECT_LT((image_load(kData + name).f32() - png.f32()).abs().max().item<float>(), 8) << name;
}

TEST(Image, WhatIsSavedIsLoaded) {
  const TemporaryFolder folder;
  for (const int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = Tensor::randint({5, 7, channels}, 0, 256).cast(dtypes::uint8).contiguous().realize();
    image_save(image, folder / "a.png");
    const Tensor again = image_load(folder / "a.png");
    EXPECT_EQ(again.bytes(), image.bytes()) << channels;
  }
}

TEST(ImageErrors, WhatCannotBeSaved) {
  const TemporaryFolder folder;
  const auto save = [&](const Tensor& t) { return error_of([&] { image_save(t, folder / "a"); }); };
  const TensorOptions bytes{.dtype = dtypes::uint8};
  EXPECT_THAT(save(Tensor::zeros({2, 2, 3})), HasSubstr("a picture is uint8, given float32"));
  EXPECT_THAT(save(Tensor::zeros({2, 2}, bytes)),
              HasSubstr("expected (height, width, channels), given (2, 2)"));
  EXPECT_THAT(save(Tensor::zeros({2, 2, 5}, bytes)), HasSubstr("1 to 4 channels"));
  EXPECT_THAT(save(Tensor::zeros({0, 2, 3}, bytes)), HasSubstr("a picture of 2 x 0 pixels"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ImageErrors, DamagedOnes) {
  EXPECT_THAT(wrong_image(""), HasSubstr("neither a PNG nor a JPEG"));
  EXPECT_THAT(wrong_image("GIF89a"), HasSubstr("neither a PNG nor a JPEG"));
  for (const char* name : {"rgb.png", "palette.png", "grey.jpg", "progressive.jpg"}) {
    const std::string whole = read_bytes(kData + name);
    ASSERT_EQ(wrong_image(whole), "") << name;
    for (size_t n = 0; n + 16 < whole.size(); n += 7)
      EXPECT_NE(wrong_image(whole.substr(0, n)), "") << name << n;
  }
  std::string large = read_bytes(kData + "rgb.png");
  large.replace(16, 8,
                "\x7f\xff\xff\xff\x7f\xff\xff\xff");  // width and height; the checksum is wrong now too
  EXPECT_NE(wrong_image(large), "");
}

}  // namespace
}  // namespace quern::io
