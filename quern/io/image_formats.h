// Pictures as bytes, by libpng and libjpeg. Built without them, these functions say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace quern::io {

struct Pixels {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<std::byte> bytes;
};

// Errors name the file.
Pixels read_png(std::span<const std::byte> bytes, const std::string& file, int64_t most_pixels);
Pixels read_jpeg(std::span<const std::byte> bytes, const std::string& file, int64_t most_pixels);
std::vector<std::byte> as_png(const Pixels& pixels);

// No memory is asked for what is too large.
void check_pixels(int64_t height, int64_t width, int64_t most, const std::string& file);

}  // namespace quern::io
