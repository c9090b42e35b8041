#include "quern/engine/search/beam.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>

#include "quern/base/codegen_version.h"
#include "quern/base/env.h"
#include "quern/base/profile.h"
#include "quern/codegen/lower.h"
#include "quern/engine/host.h"
#include "quern/engine/search/measure.h"
#include "quern/engine/search/search_report.h"
#include "quern/runtime/cache/disk_cache.h"
#include "quern/runtime/counters.h"

namespace quern {
namespace {

constexpr std::string_view kFormat = "opts: ";  // what an entry on disk begins with

struct Known {
  static constexpr size_t kMost = 65536;
  std::mutex mutex;  // held while searching
  std::map<std::string, std::optional<Opts>> found;
};
Known& known() {
  static Known all;
  return all;
}

bool is_searched(const Device& device, const UOp& kernel) {
  if (env::BEAM() == 0 || env::NOOPT() || !env::OPTS().empty()) return false;
  if (!device.takes_programs() || device.hardware().empty() || kernel.op() != Op::SINK) return false;
  return kernel.arg().none() || kernel.arg().kernel().opts.empty();
}

// None if there is no entry, or one that is of no use.
std::optional<Opts> from_disk(DiskCache* cache, const std::string& key, const Optimisable& kernel) {
  const std::optional<std::string> text = cache == nullptr ? std::nullopt : cache->find(key);
  if (!text || !text->starts_with(kFormat)) return {};
  try {
    Opts opts = parse_opts(std::string_view(*text).substr(kFormat.size()));
    (void)apply_opts(kernel.program, opts, kernel.spec);
    return opts;
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
    return {};
  }
}

std::string name_of(const UOp& kernel) { return kernel.arg().none() ? "" : kernel.arg().kernel().name; }

Opts searched(Device& device, const UOp& kernel, const Optimisable& start, Turn turn) {
  GlobalCounters::searches++;
  const profile::Timer timer("search");
  const auto began = std::chrono::steady_clock::now();
  SearchProgress progress(name_of(kernel), turn);
  DeviceMeasurer measurer(device, kernel, {.seconds = static_cast<double>(env::BEAM_SECONDS())},
                          [&](size_t done, size_t all, double best) {
                            check_host();
                            progress.show(done, all, best);
                          });
  const Found found = search(start, env::BEAM(), measurer);
  progress.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (env::DEBUG() >= 1)
    std::fputs(describe_search(name_of(kernel), found, seconds, env::DEBUG() >= 2).c_str(), stderr);
  return found.best.opts;
}

// None: its loops stay as they are, or it cannot be measured.
std::optional<Opts> found_for(Device& device, const UOp& kernel, const std::string& key, Turn turn) {
  try {
    const std::optional<Optimisable> start = before_opts(kernel, device.spec());
    if (!start) return {};
    DiskCache* const cache = DiskCache::get();
    if (std::optional<Opts> kept = from_disk(cache, key, *start)) {
      if (env::DEBUG() >= 1)
        std::fputs(fmt::format("beam   {:<28} found\n", name_of(kernel)).c_str(), stderr);
      return kept;
    }
    Opts opts = searched(device, kernel, *start, turn);
    if (cache != nullptr) cache->store(key, std::string(kFormat) + to_text(opts));
    return opts;
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {  // if it is the kernel's, it comes again when it is compiled
    if (env::DEBUG() >= 1)
      std::fputs(fmt::format("beam   {:<28} not searched: {}\n", name_of(kernel), e.what()).c_str(), stderr);
    return {};
  }
}

}  // namespace

std::string search_key(const Device& device, const UOp& kernel) {
  return fmt::format("BEAM={} {} {}\n{}\n{}", env::BEAM(), kernel.replace({.arg = Arg()}).key(),
                     device.spec().text(), device.hardware(), kCodegenVersion);
}

std::optional<Opts> searched_opts(Device& device, const UOp& kernel, Turn turn) {
  if (!is_searched(device, kernel)) return {};
  const std::string key = search_key(device, kernel);
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.found.find(key); found != all.found.end()) return found->second;
  std::optional<Opts> opts = found_for(device, kernel, key, turn);
  if (all.found.size() >= Known::kMost) all.found.clear();
  return all.found.emplace(key, std::move(opts)).first->second;
}

void forget_searches() {
  Known& all = known();
  const std::lock_guard lock(all.mutex);
  all.found.clear();
}

}  // namespace quern
