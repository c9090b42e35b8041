// Writing archives.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "quern/base/error.h"
#include "quern/io/bytes.h"
#include "quern/io/zip.h"

namespace quern::io {
namespace {

constexpr uint64_t kNarrow = 0xffffffff;  // from here on, numbers stand with 64 bits in an extra field
constexpr uint64_t kAlignment = 64, kEntrySize = 30;
constexpr uint16_t kNamesAreUtf8 = 1 << 11, kVersion = 45;
constexpr uint32_t kFirstDay =
    1 << 21 | 1 << 16;  // the 1st of January 1980, as time and date: no clock is read
constexpr uint16_t kPadding = 0xd935;

class Record {
 public:
  template <class Number>
  Record& put(Number value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Record& put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Record& put_text(const std::string& text) { return put_bytes(std::as_bytes(std::span(text))); }
  void zeros(size_t count) { bytes_.resize(bytes_.size() + count); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

uint32_t narrow(uint64_t value) { return static_cast<uint32_t>(std::min(value, kNarrow)); }
uint16_t short_of(size_t value) { return static_cast<uint16_t>(std::min<size_t>(value, 0xffff)); }

}  // namespace

void ZipWriter::write(std::span<const std::byte> bytes) {
  file_.write(bytes);
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::span<const std::byte>> parts) {
  if (name.size() > 0xff00) throw Error(fmt::format("a name of {} bytes is too long for zip", name.size()));
  Written entry{.name = name, .at = at_, .size = 0, .checksum = 0};
  for (const auto& part : parts) {
    entry.size += part.size();
    entry.checksum = crc32_of(part, entry.checksum);
  }
  Record extra;
  if (entry.size >= kNarrow) extra.put<uint16_t>(1).put<uint16_t>(16).put(entry.size).put(entry.size);
  const uint64_t begins = at_ + kEntrySize + name.size() + extra.bytes().size() + 6;
  const uint64_t gap = (kAlignment - begins % kAlignment) % kAlignment;
  extra.put(kPadding).put(static_cast<uint16_t>(2 + gap)).put(static_cast<uint16_t>(kAlignment)).zeros(gap);
  Record head;
  head.put<uint32_t>(0x04034b50).put(kVersion).put(kNamesAreUtf8).put<uint16_t>(0).put(kFirstDay);
  head.put(entry.checksum).put(narrow(entry.size)).put(narrow(entry.size));
  head.put(short_of(name.size())).put(short_of(extra.bytes().size())).put_text(name).put_bytes(extra.bytes());
  write(head.bytes());
  for (const auto& part : parts) write(part);
  written_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const uint64_t at = at_;
  for (const Written& e : written_) {
    Record wide;
    if (e.size >= kNarrow) wide.put(e.size).put(e.size);
    if (e.at >= kNarrow) wide.put(e.at);
    Record extra;
    if (!wide.bytes().empty())
      extra.put<uint16_t>(1).put(short_of(wide.bytes().size())).put_bytes(wide.bytes());
    Record head;
    head.put<uint32_t>(0x02014b50).put(kVersion).put(kVersion).put(kNamesAreUtf8).put<uint16_t>(0);
    head.put(kFirstDay).put(e.checksum).put(narrow(e.size)).put(narrow(e.size));
    head.put(short_of(e.name.size())).put(short_of(extra.bytes().size())).zeros(2 + 2 + 2 + 4);
    head.put(narrow(e.at)).put_text(e.name).put_bytes(extra.bytes());
    write(head.bytes());
  }
  const uint64_t size = at_ - at, count = written_.size(), wide_at = at_;
  Record end;
  if (at >= kNarrow || size >= kNarrow || count >= 0xffff) {
    end.put<uint32_t>(0x06064b50).put<uint64_t>(44).put(kVersion).put(kVersion).zeros(8);
    end.put(count).put(count).put(size).put(at);
    end.put<uint32_t>(0x07064b50).put<uint32_t>(0).put(wide_at).put<uint32_t>(1);
  }
  end.put<uint32_t>(0x06054b50).put<uint32_t>(0).put(short_of(count)).put(short_of(count));
  end.put(narrow(size)).put(narrow(at)).put<uint16_t>(0);
  write(end.bytes());
  file_.finish();
}

}  // namespace quern::io
