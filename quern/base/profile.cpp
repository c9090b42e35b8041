#include "quern/base/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "quern/base/fork.h"

namespace quern::profile {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostRows = 40;  // of kernels; the others are one row

struct Kernel {
  int64_t runs = 0, operations = 0, bytes = 0;
  double seconds = 0;
};
struct Stage {
  int64_t calls = 0;
  double seconds = 0;
};

struct Tables {
  ProcessMutex mutex{LockOrder::profile};
  bool printed_at_exit = false;
  std::map<std::tuple<std::string, std::string, uint64_t>, Kernel> kernels;  // name, device, which
  std::map<std::string, Stage, std::less<>> stages;
  std::map<std::string, int64_t, std::less<>> memory;  // by device

  void clear() { kernels.clear(), stages.clear(), memory.clear(); }
};

// Never destroyed: threads may still run while the program ends. A child has a profile of its own.
Tables& tables() {
  static auto* const made = [] {
    in_forked_child([] { tables().clear(); });
    return new Tables;  // NOLINT(cppcoreguidelines-owning-memory): see above
  }();
  return *made;
}

Clock::time_point begun = Clock::now();  // the program, or what is counted of it
thread_local Timer* innermost = nullptr;

// Under the mutex. Printing at the program's end is arranged for once.
void print_at_exit(Tables& all) {
  if (all.printed_at_exit) return;
  all.printed_at_exit = std::atexit([] { std::fputs(report().c_str(), stderr); }) == 0;
}

double seconds_of(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }
double rate(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds * 1e-9 : 0;
}

std::string row_of_kernel(std::string_view name, std::string_view device, const Kernel& k, double all) {
  return fmt::format("{:<34} {:<8} {:>8} {:>12.3f} {:>8.1f} {:>10.2f} {:>10.2f}\n", name, device, k.runs,
                     k.seconds * 1e3, share(k.seconds, all), rate(k.operations, k.seconds),
                     rate(k.bytes, k.seconds));
}

template <class Map>
auto longest_first(const Map& map) {
  std::vector<std::pair<typename Map::key_type, typename Map::mapped_type>> rows(map.begin(), map.end());
  std::ranges::sort(rows, [](const auto& a, const auto& b) {
    return a.second.seconds != b.second.seconds ? a.second.seconds > b.second.seconds : a.first < b.first;
  });
  return rows;
}

std::string kernel_table(const Tables& all, double total) {
  const auto rows = longest_first(all.kernels);
  std::string text = fmt::format("{:<34} {:<8} {:>8} {:>12} {:>8} {:>10} {:>10}\n", "kernel", "device",
                                 "calls", "time, ms", "share, %", "GFLOP/s", "GB/s");
  Kernel others;
  for (size_t i = 0; i < rows.size(); i++) {
    const auto& [key, k] = rows[i];
    if (i < kMostRows) {
      text += row_of_kernel(std::get<0>(key), std::get<1>(key), k, total);
      continue;
    }
    others.runs += k.runs, others.operations += k.operations, others.bytes += k.bytes;
    others.seconds += k.seconds;
  }
  if (rows.size() > kMostRows)
    text += row_of_kernel(fmt::format("{} others", rows.size() - kMostRows), "", others, total);
  return text;
}

std::string stage_table(const Tables& all, double total) {
  const auto rows = longest_first(all.stages);
  std::string text = fmt::format("{:<43} {:>8} {:>12} {:>8}\n", "compiling", "calls", "time, ms", "share, %");
  for (const auto& [name, s] : rows)
    text += fmt::format("{:<43} {:>8} {:>12.3f} {:>8.1f}\n", name, s.calls, s.seconds * 1e3,
                        share(s.seconds, total));
  return text;
}

}  // namespace

void add(const Run& run) {
  Tables& all = tables();
  const std::lock_guard lock(all.mutex);
  print_at_exit(all);
  Kernel& k = all.kernels[{std::string(run.name), std::string(run.device), run.kernel}];
  k.runs += run.times, k.seconds += run.seconds;
  k.operations += run.operations, k.bytes += run.bytes;
}

void note_memory(std::string_view device, int64_t bytes) {
  Tables& all = tables();
  const std::lock_guard lock(all.mutex);
  print_at_exit(all);
  auto known = all.memory.find(device);
  if (known == all.memory.end()) known = all.memory.emplace(device, 0).first;
  known->second = std::max(known->second, bytes);
}

void Timer::begin(std::string_view name) {
  name_ = name;
  is_running_ = true;
  outer_ = innermost;
  innermost = this;
  begun_ = Clock::now();
}

void Timer::end() noexcept try {
  const Clock::duration all_of_it = Clock::now() - begun_;
  innermost = outer_;
  if (outer_ != nullptr) outer_->nested_ += all_of_it;
  Tables& all = tables();
  const std::lock_guard lock(all.mutex);
  print_at_exit(all);
  Stage& s = all.stages[name_];
  s.calls++, s.seconds += seconds_of(all_of_it - nested_);
} catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): a time that is not told
}

std::string report() {
  Tables& all = tables();
  const std::lock_guard lock(all.mutex);
  if (all.kernels.empty() && all.stages.empty() && all.memory.empty()) return "";
  const double whole = seconds_of(Clock::now() - begun);
  int64_t runs = 0;
  double running = 0, compiling = 0;
  for (const auto& [key, k] : all.kernels) runs += k.runs, running += k.seconds;
  for (const auto& [name, s] : all.stages) compiling += s.seconds;
  std::string text = fmt::format(
      "\nprofile: {:.3f} s in all; kernels and copies {:.3f} s ({:.1f} %), {} in {} runs; compiling {:.3f} s "
      "({:.1f} %), all threads together\n",
      whole, running, share(running, whole), all.kernels.size(), runs, compiling, share(compiling, whole));
  for (const auto& [device, bytes] : all.memory)
    text += fmt::format("peak memory of {}: {:.3f} MB\n", device, static_cast<double>(bytes) * 1e-6);
  if (!all.kernels.empty()) text += "\n" + kernel_table(all, running);
  if (!all.stages.empty()) text += "\n" + stage_table(all, compiling);
  return text;
}

void reset() {
  Tables& all = tables();
  const std::lock_guard lock(all.mutex);
  all.clear();
  begun = Clock::now();
}

}  // namespace quern::profile
