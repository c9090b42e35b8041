// Archives made by hand, in memory.
#pragma once

#include <utility>

#include "quern/io/zip.h"
#include "test/io/bytes.h"

namespace quern::io {

// A zip of stored entries.
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  Draft all, directory;
  for (const auto& entry : entries) {
    const std::string &name = entry.first, &data = entry.second;
    const auto at = static_cast<uint32_t>(all.str().size()), size = static_cast<uint32_t>(data.size());
    const auto put_facts = [&](Draft& d) {
      d.put<uint16_t>(20).put<uint16_t>(0).put<uint16_t>(0).put<uint32_t>(0);
      d.put(crc32_of(std::as_bytes(std::span(data))))
          .put(size)
          .put(size)
          .put(static_cast<uint16_t>(name.size()));
      d.put<uint16_t>(0);
    };
    put_facts(all.put<uint32_t>(0x04034b50));
    all.text(name).text(data);
    put_facts(directory.put<uint32_t>(0x02014b50).put<uint16_t>(20));
    directory.put<uint16_t>(0).put<uint16_t>(0).put<uint16_t>(0).put<uint32_t>(0).put(at).text(name);
  }
  const auto at = static_cast<uint32_t>(all.str().size()),
             size = static_cast<uint32_t>(directory.str().size());
  const auto count = static_cast<uint16_t>(entries.size());
  all.text(directory.str()).put<uint32_t>(0x06054b50).put<uint32_t>(0).put(count).put(count);
  return all.put(size).put(at).put<uint16_t>(0).str();
}

}  // namespace quern::io
