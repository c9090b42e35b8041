#include "quern/io/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "quern/base/error.h"
#include "quern/io/bytes.h"
#include "quern/io/inflate.h"

namespace quern::io {
namespace {

constexpr uint32_t kEntry = 0x04034b50, kDirectoryEntry = 0x02014b50, kEnd = 0x06054b50,
                   kWideEnd = 0x06064b50, kWideEndPlace = 0x07064b50;
constexpr uint64_t kEndSize = 22, kWideEndPlaceSize = 20, kDirectoryEntrySize = 46, kMostComment = 0xffff;
constexpr uint32_t kInWide = 0xffffffff;  // of a number of 32 bits: it stands with 64 bits elsewhere
constexpr uint64_t kMostRatio = 1032;     // deflate makes nothing smaller than that

struct Directory {
  uint64_t at = 0, size = 0, entries = 0;
  uint64_t end = 0;  // where what follows it begins
};

// The record at the end of the file, before a comment.
uint64_t find_end(const ByteReader& in) {
  const auto bytes = in.all();
  if (bytes.size() < kEndSize)
    in.refuse(fmt::format("it has {} bytes, the end of an archive alone has {}", bytes.size(), kEndSize));
  const uint64_t last = bytes.size() - kEndSize;
  for (uint64_t at = last;; at--) {
    if (number_at<uint32_t>(bytes.subspan(at)) == kEnd &&
        at + kEndSize + number_at<uint16_t>(bytes.subspan(at + 20)) == bytes.size())
      return at;
    if (at == 0 || last - at >= kMostComment) in.refuse("no end of a directory");
  }
}

Directory find_directory(ByteReader& in) {
  const uint64_t end = find_end(in);
  in.go_to(end + 4, "the end");
  const auto disk = in.number<uint16_t>("the end"), first_disk = in.number<uint16_t>("the end"),
             here = in.number<uint16_t>("the end"), entries = in.number<uint16_t>("the end");
  const auto size = in.number<uint32_t>("the end"), at = in.number<uint32_t>("the end");
  Directory found{.at = at, .size = size, .entries = entries, .end = end};
  bool is_one_file = disk == first_disk && (disk == 0 || disk == 0xffff) && here == entries;
  if (end >= kWideEndPlaceSize) {
    in.go_to(end - kWideEndPlaceSize, "the place of the long end");
    if (in.number<uint32_t>("the place of the long end") == kWideEndPlace) {
      const auto its_disk = in.number<uint32_t>("the place of the long end");
      const auto place = in.number<uint64_t>("the place of the long end");
      const auto disks = in.number<uint32_t>("the place of the long end");
      in.go_to(place, "the long end");
      if (in.number<uint32_t>("the long end") != kWideEnd)
        in.refuse("the long end is not where it should be");
      in.take(8 + 2 + 2, "the long end");
      is_one_file = its_disk == 0 && disks <= 1 && in.number<uint32_t>("the long end") == 0 &&
                    in.number<uint32_t>("the long end") == 0;
      const auto entries_here = in.number<uint64_t>("the long end");
      found.entries = in.number<uint64_t>("the long end");
      is_one_file = is_one_file && entries_here == found.entries;
      found.size = in.number<uint64_t>("the long end");
      found.at = in.number<uint64_t>("the long end");
      found.end = place;
    }
  }
  if (!is_one_file) in.refuse("it is one of several files");
  if (found.at > found.end || found.size > found.end - found.at)
    in.refuse(fmt::format("its directory stands at {} and has {} bytes, its end stands at {}", found.at,
                          found.size, found.end));
  if (found.entries > found.size / kDirectoryEntrySize)
    in.refuse(fmt::format("a directory of {} entries in {} bytes", found.entries, found.size));
  return found;
}

// Sizes and places that do not fit in 32 bits stand in an extra field, in the order of these pointers.
void read_wide(const ByteReader& in, std::span<std::byte> extra, std::span<uint64_t* const> numbers,
               const std::string& name) {
  const bool needed = std::ranges::any_of(numbers, [](const uint64_t* n) { return *n == kInWide; });
  while (needed && extra.size() >= 4) {
    const auto kind = number_at<uint16_t>(extra), size = number_at<uint16_t>(extra.subspan(2));
    if (size > extra.size() - 4) break;
    std::span<std::byte> field = extra.subspan(4, size);
    extra = extra.subspan(4 + size_t{size});
    if (kind != 1) continue;
    for (uint64_t* const n : numbers) {
      if (*n != kInWide) continue;
      if (field.size() < 8) in.refuse(fmt::format("entry '{}' has too few long numbers", name));
      *n = number_at<uint64_t>(field);
      field = field.subspan(8);
    }
    return;
  }
}

// An entry, and where it begins in the file.
struct Placed {
  ZipEntry entry;
  uint64_t at, end;
};

Placed read_entry(ByteReader& in, const Directory& directory) {
  constexpr const char* kWhat = "the directory";
  if (in.number<uint32_t>(kWhat) != kDirectoryEntry)
    in.refuse(fmt::format("no entry of a directory at {}", in.position() - 4));
  in.take(2 + 2, kWhat);  // versions
  const auto flags = in.number<uint16_t>(kWhat);
  ZipEntry e;
  e.method = in.number<uint16_t>(kWhat);
  in.take(2 + 2, kWhat);  // time
  e.checksum = in.number<uint32_t>(kWhat);
  uint64_t packed = in.number<uint32_t>(kWhat);
  e.size = in.number<uint32_t>(kWhat);
  const auto name_size = in.number<uint16_t>(kWhat), extra_size = in.number<uint16_t>(kWhat),
             comment_size = in.number<uint16_t>(kWhat);
  in.take(2 + 2 + 4, kWhat);  // disk, attributes
  uint64_t at = in.number<uint32_t>(kWhat);
  e.name = in.text(name_size, "a name");
  const std::array<uint64_t*, 3> wide = {&e.size, &packed, &at};
  read_wide(in, in.take(extra_size, kWhat), wide, e.name);
  in.take(comment_size, kWhat);
  if ((flags & 1) != 0) in.refuse(fmt::format("entry '{}' is encrypted", e.name));

  const uint64_t next = in.position();
  in.go_to(at, fmt::format("entry '{}'", e.name));
  if (in.number<uint32_t>("an entry") != kEntry)
    in.refuse(fmt::format("entry '{}' should stand at {}, there is none", e.name, at));
  in.take(2 + 2, "an entry");
  const auto method = in.number<uint16_t>("an entry");
  in.take(2 + 2 + 4 + 4 + 4, "an entry");
  const auto its_name_size = in.number<uint16_t>("an entry"),
             its_extra_size = in.number<uint16_t>("an entry");
  const std::string its_name = in.text(its_name_size, "a name");
  if (its_name != e.name || method != e.method)
    in.refuse(fmt::format("entry '{}' is called '{}' where it stands", e.name, its_name));
  in.take(its_extra_size, "an entry");
  e.stored = in.take(packed, fmt::format("entry '{}'", e.name));
  const uint64_t end = in.position();
  if (end > directory.at) in.refuse(fmt::format("entry '{}' reaches into the directory", e.name));
  if (e.method == 0 && e.size != packed)
    in.refuse(fmt::format("entry '{}' is stored in {} bytes and should have {}", e.name, packed, e.size));
  if (e.size / kMostRatio > packed)
    in.refuse(fmt::format("entry '{}' of {} bytes cannot hold {}", e.name, packed, e.size));
  in.go_to(next, kWhat);
  return {std::move(e), at, end};
}

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; bit++) c = (c & 1) != 0 ? 0xedb88320U ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  return table;
}();

}  // namespace

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t c = ~before;
  for (const std::byte b : bytes) c = kCrcTable[(c ^ std::to_integer<uint32_t>(b)) & 0xff] ^ (c >> 8);
  return ~c;
}

std::vector<ZipEntry> zip_entries(std::span<std::byte> bytes, const std::string& file) {
  ByteReader in(bytes, file, "zip");
  const Directory directory = find_directory(in);
  in.go_to(directory.at, "the directory");
  std::vector<Placed> all;
  std::set<std::string> names;
  for (uint64_t i = 0; i < directory.entries; i++) {
    all.push_back(read_entry(in, directory));
    if (!names.insert(all.back().entry.name).second)
      in.refuse(fmt::format("entry '{}' stands in it twice", all.back().entry.name));
  }
  if (in.position() != directory.at + directory.size)
    in.refuse(
        fmt::format("a directory of {} bytes ends after {}", directory.size, in.position() - directory.at));
  std::vector<const Placed*> sorted;
  sorted.reserve(all.size());
  for (const Placed& p : all) sorted.push_back(&p);
  std::ranges::sort(sorted, {}, [](const Placed* p) { return p->at; });
  for (size_t i = 1; i < sorted.size(); i++)
    if (sorted[i]->at < sorted[i - 1]->end)
      in.refuse(fmt::format("entry '{}' overlaps '{}'", sorted[i]->entry.name, sorted[i - 1]->entry.name));
  std::vector<ZipEntry> entries;
  entries.reserve(all.size());
  for (Placed& p : all) entries.push_back(std::move(p.entry));
  return entries;
}

Held unpacked(const ZipEntry& entry, const std::string& file, const KeepAlive& keep_alive, bool is_checked) {
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("{}: entry '{}' {}", file, entry.name, why));
  };
  Held held{entry.stored, keep_alive};
  if (entry.method == 8) {
    auto memory = std::make_shared<std::vector<std::byte>>(entry.size);
    if (const std::string why = inflate_into(entry.stored, *memory); !why.empty()) refuse(why);
    held = {*memory, memory};
  } else if (entry.method != 0) {
    refuse(fmt::format("is packed by method {}; quern reads stored and deflated ones", entry.method));
  }
  if ((is_checked || entry.method != 0) && crc32_of(held.bytes) != entry.checksum)
    refuse("is damaged: its checksum is wrong");
  return held;
}

}  // namespace quern::io
