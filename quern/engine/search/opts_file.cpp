#include "quern/engine/search/opts_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "quern/base/env.h"
#include "quern/base/error.h"
#include "quern/base/file.h"
#include "quern/codegen/lower.h"
#include "quern/codegen/opt/opt.h"

namespace quern {
namespace {

std::optional<Opts> find_opts(const std::string& path, const std::string& name) {
  std::ifstream file(system_path(path));
  if (!file || std::filesystem::is_directory(path))
    throw Error(fmt::format("OPTS: the file {} cannot be read", path));
  std::string line;
  for (int number = 1; std::getline(file, line); number++) {
    if (line.find_first_not_of(" \t\r") == std::string::npos || line[0] == '#') continue;
    const size_t colon = line.find(':');
    const auto wrong = [&](const std::string& what) { return fmt::format("{}:{}: {}", path, number, what); };
    if (colon == std::string::npos)
      throw Error(wrong("expected the name of a kernel, a colon and its opts, found \"" + line + "\""));
    if (line.substr(0, colon) != name) continue;
    std::string text = line.substr(colon + 1);
    while (!text.empty() && (text.back() == '\r' || text.back() == '\t')) text.pop_back();
    try {
      return parse_opts(text);
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      throw Error(wrong(e.what()));
    }
  }
  return {};
}

}  // namespace

UOp with_opts_of_file(const UOp& kernel) {
  const std::string& given = env::OPTS();
  if (!given.starts_with('@') || env::NOOPT() || kernel.arg().none()) return kernel;
  if (!kernel.arg().kernel().opts.empty()) return kernel;
  const std::optional<Opts> found = find_opts(given.substr(1), kernel.arg().kernel().name);
  return found ? with_opts(kernel, *found) : kernel;
}

}  // namespace quern
