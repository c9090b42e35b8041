// What a file is, by how it begins: for errors about files of another kind.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::io {

// "looks like a file of GGUF (gguf_load)", or what can be said of unknown bytes. `start` is how it begins, 64
// bytes or all of it.
std::string looks_like(std::string_view start, size_t bytes);

}  // namespace quern::io
