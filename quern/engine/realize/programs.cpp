#include "quern/engine/realize/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "quern/base/env.h"
#include "quern/base/profile.h"
#include "quern/codegen/lower.h"
#include "quern/engine/search/beam.h"
#include "quern/engine/search/opts_file.h"

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
    int64_t beam;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::unordered_map<UOp, std::shared_ptr<const Program>>> programs;
};
Programs& programs() {
  static auto* const made = new Programs;  // NOLINT(cppcoreguidelines-owning-memory): holds nodes to the end
  return *made;
}

// What a program is made from, for caches beyond this process. Of the environment all that is not known to
// have nothing to do with it.
std::string key_of(const Device& device, const UOp& kernel) {
  constexpr std::array<std::string_view, 16> kElsewhere = {
      "DEBUG",        "SPEC",  "TRACK_MATCH_STATS", "REWRITE_TRACE", "GRAPHS", "PROFILE", "DEVICE",
      "NO_COLOR",     "CACHE", "QUERN_CACHE_DIR",   "CACHE_LIMIT",   "GUARD",  "RING",    "BEAM",
      "BEAM_SECONDS", "JIT"};
  std::string key = fmt::format("{} {}", kernel.key(), device.spec().text());
  for (const env::Variable& v : env::detail::rows) {
    const std::string_view name = v.name;
    if (std::ranges::find(kElsewhere, name) != kElsewhere.end()) continue;
    if (v.kind == env::Kind::text)
      key += fmt::format(" {}='{}'", name, env::get_text(name));
    else
      key += fmt::format(" {}={}", name, env::get(name));
  }
  return key;
}

std::shared_ptr<const Program> compiled(Device& device, const UOp& scheduled) {
  if (!device.takes_programs()) {  // opts make no difference there, but those that do not apply are an Error
    check_given(scheduled, device.spec());
    return device.compile(scheduled);
  }
  const UOp given = with_opts_of_file(scheduled);
  const std::optional<Opts> found = searched_opts(device, given);
  const OptChoice choice = found ? OptChoice::searched : OptChoice::best;
  const UOp kernel = found ? with_opts(given, *found) : given;
  return device.compile_source(ProgramSource{
      key_of(device, kernel) + (found ? " searched" : ""), [&device, kernel, choice] {
        const profile::Timer timer("lower: the rest");
        LinearProgram program = lower(kernel, device.spec(), choice);
        if (env::DEBUG() >= 6)
          std::fputs(fmt::format("linear {}\n{}", program.name, program.text()).c_str(), stderr);
        if (env::DEBUG() >= 4) std::fputs(device.source(program).c_str(), stderr);
        return program;
      }});
}

Programs::Key key_in_force(const Device& device) {
  return {&device, !env::NOOPT(), env::OPTS(), env::BEAM()};
}

bool is_known(const Device& device, const UOp& kernel) {
  Programs& all = programs();
  const std::lock_guard lock(all.mutex);
  return all.programs[key_in_force(device)].contains(kernel);
}

}  // namespace

std::shared_ptr<const Program> program_for(Device& device, const UOp& kernel) {
  Programs& all = programs();
  const Programs::Key key = key_in_force(device);
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

void compile_ahead(const std::vector<std::pair<Device*, UOp>>& kernels) {
  if (env::DEBUG() >= 4 || !env::REWRITE_TRACE().empty()) return;  // these tell in order
  std::vector<const std::pair<Device*, UOp>*> missing;
  std::set<std::pair<const Device*, const void*>> seen;
  for (const auto& one : kernels)
    if (one.first->takes_programs() && seen.emplace(one.first, one.second.node()).second &&
        !is_known(*one.first, one.second))
      missing.push_back(&one);
  for (size_t i = 0; i < missing.size(); i++)  // measured alone
    (void)searched_opts(*missing[i]->first, missing[i]->second, {i + 1, missing.size()});
  const size_t workers = std::min<size_t>(missing.size(), std::max(1U, std::thread::hardware_concurrency()));
  if (workers < 2 || missing.size() > Programs::kMost / 2) return;
  // What takes long first, so that none has to wait for it at the end.
  std::ranges::stable_sort(missing, std::greater{},
                           [](const auto* one) { return one->second.toposort().size(); });
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < missing.size(); i = next++) {
      try {
        (void)program_for(*missing[i]->first, missing[i]->second);
      } catch (const std::exception&) {
        continue;  // it comes again when the kernel is to run
      }
    }
  };
  std::vector<std::jthread> threads;
  try {
    for (size_t i = 1; i < workers; i++) threads.emplace_back(work);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): there are no more; fewer will do
  }
  work();
}

}  // namespace quern
