#include "quern/io/looks_like.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace quern::io {
namespace {

struct Beginning {
  std::string_view bytes;
  const char* what;
};
constexpr std::array<Beginning, 7> kBeginnings = {{
    {"GGUF", "a file of GGUF (gguf_load)"},
    {std::string_view("\x93NUMPY", 6), "an array of NumPy (npy_load)"},
    {std::string_view("\x89HDF\r\n", 6), "a file of HDF5, as Keras writes"},
    {std::string_view("\x1f\x8b", 2), "a file that is compressed by gzip"},
    {std::string_view("\x28\xb5\x2f\xfd", 4), "a file that is compressed by zstd"},
    {"version https://git-lfs", "a pointer of Git LFS, in place of the file itself: run git lfs pull"},
    {"\x7f"
     "ELF",
     "a program"},
}};

}  // namespace

std::string looks_like(std::string_view start, size_t bytes) {
  if (bytes == 0) return "is empty";
  for (const Beginning& b : kBeginnings)
    if (start.starts_with(b.bytes)) return fmt::format("looks like {}", b.what);
  if (start.size() > 8 && start[8] == '{') return "looks like a file of safetensors (safe_load)";
  const bool is_text = std::ranges::all_of(start, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || std::isprint(byte) != 0 || c == '\n' || c == '\r' || c == '\t';
  });
  if (!is_text) return fmt::format("is {} bytes of a kind that is not known", bytes);
  std::string line(start.substr(0, std::min(start.find_first_of("\r\n"), size_t{40})));
  if (line.starts_with("<")) return "looks like a page of the web, or XML: was the download an error?";
  std::erase_if(line, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  return fmt::format("looks like text: '{}'", line);
}

}  // namespace quern::io
