// Archives of the format zip: what is in them, in place where it is not compressed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quern/base/file.h"
#include "quern/engine/realize/data.h"

namespace quern::io {

// Bytes, and what keeps them.
struct Held {
  std::span<std::byte> bytes;
  KeepAlive keep_alive;
};

struct ZipEntry {
  std::string name;
  std::span<std::byte> stored;  // as it stands in the file
  uint64_t size = 0;            // unpacked
  uint16_t method = 0;          // 0: as it is, 8: deflated
  uint32_t checksum = 0;
};

// The entries in the order of the directory. Errors for names that stand twice, entries that overlap or are
// cut off, and what is encrypted or spread over several files.
std::vector<ZipEntry> zip_entries(std::span<std::byte> bytes, const std::string& file);

// What an entry holds. Stored entries are in place, kept by `keep_alive`; if `is_checked`, their checksum is
// computed, for which all of it is read. Deflated ones need zlib: an Error without it.
Held unpacked(const ZipEntry& entry, const std::string& file, const KeepAlive& keep_alive, bool is_checked);

uint32_t crc32_of(std::span<const std::byte> bytes, uint32_t before = 0);  // of what follows `before`

// Writes an archive of stored entries, whose bytes begin at multiples of 64.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}
  void add(const std::string& name, std::span<const std::span<const std::byte>> parts);
  void finish();

 private:
  struct Written {
    std::string name;
    uint64_t at, size;
    uint32_t checksum;
  };
  void write(std::span<const std::byte> bytes);
  NewFile file_;
  uint64_t at_ = 0;
  std::vector<Written> written_;
};

}  // namespace quern::io
