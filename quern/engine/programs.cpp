#include "quern/engine/programs.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "quern/codegen/lower.h"
#include "quern/ir/env.h"

namespace quern {
namespace {

struct Programs {
  static constexpr size_t kMost = 16384;
  std::mutex mutex;
  // By what else is in force when a kernel is compiled; holds the kernels, too.
  struct Key {
    const Device* device;
    bool optimised;
    std::string opts;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::unordered_map<UOp, std::shared_ptr<const Program>>> programs;
};
Programs& programs() {
  static auto* const made = new Programs;  // NOLINT(cppcoreguidelines-owning-memory): holds nodes to the end
  return *made;
}

std::shared_ptr<const Program> compiled(Device& device, const UOp& kernel) {
  const LinearProgram program = lower(kernel, device.spec(), OptChoice::best);
  if (env::DEBUG() >= 6)
    std::fputs(fmt::format("linear {}\n{}", program.name, program.text()).c_str(), stderr);
  if (env::DEBUG() >= 4) std::fputs(device.source(program).c_str(), stderr);
  return device.compile(program);
}

}  // namespace

std::shared_ptr<const Program> program_for(Device& device, const UOp& kernel) {
  if (!device.takes_programs()) return device.compile(kernel);
  Programs& all = programs();
  const Programs::Key key{&device, !env::NOOPT(), env::OPTS()};
  {
    const std::lock_guard lock(all.mutex);
    const auto& programs = all.programs[key];
    if (const auto known = programs.find(kernel); known != programs.end()) return known->second;
  }
  auto program = compiled(device, kernel);
  const std::lock_guard lock(all.mutex);
  auto& known = all.programs[key];
  if (known.size() >= Programs::kMost) known.clear();
  return known.emplace(kernel, std::move(program)).first->second;
}

}  // namespace quern
