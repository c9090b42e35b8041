#include "quern/io/bytes.h"

#include <fmt/format.h>

#include "quern/base/error.h"

namespace quern::io {

void ByteReader::refuse(std::string_view why) const {
  throw Error(fmt::format("{}: not a file of {}: {}", file_, format_, why));
}

std::span<std::byte> ByteReader::take(uint64_t count, std::string_view what) {
  if (count > left())
    refuse(fmt::format("{} at {} takes {} bytes of a file of {}: it is cut off", what, at_, count,
                       bytes_.size()));
  const std::span<std::byte> taken = bytes_.subspan(at_, count);
  at_ += count;
  return taken;
}

void ByteReader::go_to(uint64_t position, std::string_view what) {
  if (position > bytes_.size())
    refuse(fmt::format("{} stands at {} of a file of {} bytes", what, position, bytes_.size()));
  at_ = position;
}

}  // namespace quern::io
