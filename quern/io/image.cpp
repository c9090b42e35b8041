#include "quern/io/image.h"

#include <fmt/format.h>

#include "quern/base/error.h"
#include "quern/base/file.h"
#include "quern/io/bytes.h"
#include "quern/io/image_formats.h"
#include "quern/io/mapped_file.h"

namespace quern::io {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 28;

}  // namespace

void check_pixels(int64_t height, int64_t width, int64_t most, const std::string& file) {
  if (height < 1 || width < 1 || height > most || width > most / height)
    throw Error(
        fmt::format("{}: a picture of {} x {} pixels; 1 to {} are allowed", file, width, height, most));
}

Tensor image_parse(std::span<const std::byte> bytes, const std::string& name, int64_t most_pixels) {
  const std::string_view text = text_of(bytes);
  const bool is_png = text.starts_with("\x89PNG\r\n\x1a\n"), is_jpeg = text.starts_with("\xff\xd8\xff");
  if (!is_png && !is_jpeg) throw Error(fmt::format("{}: neither a PNG nor a JPEG", name));
  const Pixels pixels = is_png ? read_png(bytes, name, most_pixels) : read_jpeg(bytes, name, most_pixels);
  return Tensor::from_bytes(pixels.bytes.data(), pixels.bytes.size(),
                            {pixels.height, pixels.width, pixels.channels}, dtypes::uint8);
}

Tensor image_load(const std::string& path) { return image_parse(MappedFile::open(path)->bytes(), path); }

void image_save(const Tensor& image, const std::string& path) {
  if (image.dtype() != dtypes::uint8)
    throw DTypeError(fmt::format("image_save: a picture is uint8, given {}", image.dtype().name()));
  if (image.ndim() != 3)
    throw ShapeError(
        fmt::format("image_save: expected (height, width, channels), given {}", shape_text(image.shape())));
  Pixels pixels{.height = image.size(0).value(),
                .width = image.size(1).value(),
                .channels = image.size(2).value(),
                .bytes = {}};
  if (pixels.channels < 1 || pixels.channels > 4)
    throw ShapeError(fmt::format("image_save: 1 to 4 channels, given {}", shape_text(image.shape())));
  check_pixels(pixels.height, pixels.width, kMostPixels, path);
  pixels.bytes = image.bytes();
  const std::vector<std::byte> png = as_png(pixels);
  NewFile file(path);
  file.write(png);
  file.finish();
}

}  // namespace quern::io
