// Deflated bytes, by zlib.
#pragma once

#include <span>
#include <string>

namespace quern::io {

// Unpacks `from`, a stream of deflate without a header, which must fill `to`. Returns what is wrong, "" if
// nothing is. (Built without zlib, it says so.)
std::string inflate_into(std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace quern::io
