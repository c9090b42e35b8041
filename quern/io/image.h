// Pictures: PNG and JPEG.
#pragma once

#include <span>
#include <string>

#include "quern/tensor/core/tensor.h"

namespace quern::io {

// uint8 of (height, width, channels); 1 channel is grey, 2 grey with opacity, 3 RGB, 4 RGB with opacity. What
// has 16 bits or a palette is converted. The first bytes of the file say what it is. An Error for pictures of
// more than 2^28 pixels, damaged ones, and if quern was built without the library for it.
Tensor image_load(const std::string& path);

// A PNG, of such a tensor; the old file stays until the new one is complete.
void image_save(const Tensor& image, const std::string& path);

// From memory. `name` stands in errors.
Tensor image_parse(std::span<const std::byte> bytes, const std::string& name,
                   int64_t most_pixels = int64_t{1} << 28);

}  // namespace quern::io
