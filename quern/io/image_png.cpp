#include <fmt/format.h>

#include "quern/base/error.h"
#include "quern/io/image_formats.h"

#ifdef QUERN_HAVE_PNG
#include <png.h>
#endif

namespace quern::io {

#ifdef QUERN_HAVE_PNG

namespace {

// libpng's own, freed whatever happens.
struct Image {
  png_image it = {};
  Image() { it.version = PNG_IMAGE_VERSION; }
  ~Image() { png_image_free(&it); }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  [[noreturn]] void refuse(const std::string& file) const {
    throw Error(fmt::format("{}: {}", file, &it.message[0]));
  }
};

}  // namespace

Pixels read_png(std::span<const std::byte> bytes, const std::string& file, int64_t most_pixels) {
  Image image;
  if (png_image_begin_read_from_memory(&image.it, bytes.data(), bytes.size()) == 0) image.refuse(file);
  check_pixels(image.it.height, image.it.width, most_pixels, file);
  image.it.format &= PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA;  // neither 16 bits nor a palette
  Pixels pixels{.height = image.it.height,
                .width = image.it.width,
                .channels = PNG_IMAGE_SAMPLE_CHANNELS(image.it.format),
                .bytes = {}};
  pixels.bytes.resize(static_cast<size_t>(pixels.height * pixels.width * pixels.channels));
  const auto row = static_cast<png_int_32>(pixels.width * pixels.channels);
  if (png_image_finish_read(&image.it, nullptr, pixels.bytes.data(), row, nullptr) == 0 ||
      (image.it.warning_or_error & PNG_IMAGE_ERROR) != 0)
    image.refuse(file);
  return pixels;
}

std::vector<std::byte> as_png(const Pixels& pixels) {
  Image image;
  image.it.height = static_cast<png_uint_32>(pixels.height);
  image.it.width = static_cast<png_uint_32>(pixels.width);
  image.it.format = (pixels.channels > 2 ? PNG_FORMAT_FLAG_COLOR : 0U) |
                    (pixels.channels % 2 == 0 ? PNG_FORMAT_FLAG_ALPHA : 0U);
  const auto row = static_cast<png_int_32>(pixels.width * pixels.channels);
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image.it);
  std::vector<std::byte> png(size);
  if (png_image_write_to_memory(&image.it, png.data(), &size, 0, pixels.bytes.data(), row, nullptr) == 0)
    image.refuse("image_save");
  png.resize(size);
  return png;
}

#else

namespace {
[[noreturn]] void refuse_png(const std::string& file) {
  throw Error(fmt::format("{}: quern was built without libpng (Debian: libpng-dev)", file));
}
}  // namespace

Pixels read_png(std::span<const std::byte>, const std::string& file, int64_t) { refuse_png(file); }
std::vector<std::byte> as_png(const Pixels&) { refuse_png("image_save"); }

#endif

}  // namespace quern::io
