// Whole files, read and written at once.
#pragma once

#include <string>
#include <string_view>

namespace quern {

// An Error names the path and what the system said.
std::string read_file(const std::string& path);

// Other processes see the old file or the new one, never a part: a file beside it is written and takes its
// place. A path that is no plain file (a device, a pipe) is written to as it stands.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace quern
