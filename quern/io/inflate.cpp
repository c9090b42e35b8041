#include "quern/io/inflate.h"

#include <algorithm>
#include <limits>

#ifdef QUERN_HAVE_ZLIB
#include <zlib.h>
#endif

namespace quern::io {

#ifdef QUERN_HAVE_ZLIB

std::string inflate_into(std::span<const std::byte> from, std::span<std::byte> to) {
  z_stream stream = {};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) return "cannot be unpacked: there is no memory";
  constexpr size_t kStep = std::numeric_limits<uInt>::max();
  std::byte none{};  // zlib takes no null pointers
  int status = Z_OK;
  while (status == Z_OK) {
    const size_t in = std::min(from.size(), kStep), out = std::min(to.size(), kStep);
    // NOLINTNEXTLINE: zlib reads through a pointer that is not const
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.empty() ? &none : from.data()));
    stream.next_out = reinterpret_cast<Bytef*>(to.empty() ? &none : to.data());  // NOLINT: bytes are bytes
    stream.avail_in = static_cast<uInt>(in);
    stream.avail_out = static_cast<uInt>(out);
    status = ::inflate(&stream, Z_NO_FLUSH);
    from = from.subspan(in - stream.avail_in);
    to = to.subspan(out - stream.avail_out);
  }
  ::inflateEnd(&stream);
  if (status == Z_BUF_ERROR) return from.empty() ? "is cut off" : "holds more than its size says";
  if (status != Z_STREAM_END) return "is damaged: it cannot be unpacked";
  if (!to.empty()) return "holds less than its size says";
  return from.empty() ? "" : "has bytes behind its end";
}

#else

std::string inflate_into(std::span<const std::byte>, std::span<std::byte>) {
  return "is compressed, and quern was built without zlib (Debian: zlib1g-dev)";
}

#endif

}  // namespace quern::io
