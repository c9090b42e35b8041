#include <fmt/format.h>

#include "quern/base/error.h"
#include "quern/io/image_formats.h"

#ifdef QUERN_HAVE_JPEG
#include <csetjmp>
#include <cstdio>
#include <memory>
// These need what is above.
#include <jerror.h>
#include <jpeglib.h>
#endif

namespace quern::io {

#ifdef QUERN_HAVE_JPEG

namespace {

constexpr int kMostScans = 200;  // of one picture: each goes over all of it

// libjpeg leaves by longjmp, over functions of C alone: whoever sets the place to return to has no objects
// that need to be destroyed.
struct Decoder {
  jpeg_decompress_struct it = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf leave = {};
  char message[JMSG_LENGTH_MAX] = {};
};

extern "C" {
static void leave_with_error(j_common_ptr common) {
  auto* const decoder = static_cast<Decoder*>(common->client_data);
  common->err->format_message(common, &decoder->message[0]);
  std::longjmp(decoder->leave, 1);  // NOLINT: see above
}
static void look_at_message(j_common_ptr common, int level) {
  if (level < 0 && common->err->msg_code != JWRN_EXTRANEOUS_DATA) leave_with_error(common);  // damaged
}
static void print_nothing(j_common_ptr) {}
static void look_at_progress(j_common_ptr common) {
  auto* const decoder = static_cast<Decoder*>(common->client_data);
  if (decoder->it.input_scan_number <= kMostScans) return;
  std::snprintf(&decoder->message[0], sizeof decoder->message, "more than %d scans", kMostScans);
  std::longjmp(decoder->leave, 1);  // NOLINT: see above
}
}

bool read_header(Decoder& d, std::span<const std::byte> bytes) {
  d.it.err = jpeg_std_error(&d.errors);
  d.it.client_data = &d;
  d.errors.error_exit = leave_with_error;
  d.errors.emit_message = look_at_message;
  d.errors.output_message = print_nothing;
  d.progress.progress_monitor = look_at_progress;
  if (setjmp(d.leave) != 0) return false;  // NOLINT: see above
  jpeg_create_decompress(&d.it);
  d.it.client_data = &d;
  d.it.progress = &d.progress;
  // NOLINTNEXTLINE: bytes are bytes
  jpeg_mem_src(&d.it, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&d.it, TRUE);
  d.it.out_color_space = d.it.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

bool read_rows(Decoder& d, std::byte* pixels, size_t row) {
  if (setjmp(d.leave) != 0) return false;  // NOLINT: see above
  jpeg_start_decompress(&d.it);
  while (d.it.output_scanline < d.it.output_height) {
    // NOLINTNEXTLINE: bytes are bytes
    auto* line = reinterpret_cast<JSAMPROW>(pixels + size_t{d.it.output_scanline} * row);
    jpeg_read_scanlines(&d.it, &line, 1);
  }
  jpeg_finish_decompress(&d.it);
  return true;
}

}  // namespace

Pixels read_jpeg(std::span<const std::byte> bytes, const std::string& file, int64_t most_pixels) {
  const auto decoder = std::make_unique<Decoder>();
  struct Cleaner {
    Decoder& d;
    ~Cleaner() { jpeg_destroy_decompress(&d.it); }
  } const cleaner{*decoder};
  if (!read_header(*decoder, bytes)) throw Error(fmt::format("{}: {}", file, &decoder->message[0]));
  check_pixels(decoder->it.image_height, decoder->it.image_width, most_pixels, file);
  Pixels pixels{.height = decoder->it.image_height,
                .width = decoder->it.image_width,
                .channels = decoder->it.out_color_space == JCS_GRAYSCALE ? 1 : 3,
                .bytes = {}};
  const auto row = static_cast<size_t>(pixels.width * pixels.channels);
  pixels.bytes.resize(static_cast<size_t>(pixels.height) * row);
  if (!read_rows(*decoder, pixels.bytes.data(), row))
    throw Error(fmt::format("{}: {}", file, &decoder->message[0]));
  return pixels;
}

#else

Pixels read_jpeg(std::span<const std::byte>, const std::string& file, int64_t) {
  throw Error(fmt::format("{}: quern was built without libjpeg (Debian: libjpeg62-turbo-dev)", file));
}

#endif

}  // namespace quern::io
