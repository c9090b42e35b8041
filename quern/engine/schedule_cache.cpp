#include "quern/engine/schedule_cache.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <unordered_map>

#include "quern/ir/env.h"
#include "quern/ir/movement.h"
#include "quern/ir/node_map.h"

namespace quern {

Stripped strip(const UOp& sink) {
  Stripped result;
  NodeMap<UOp> done;
  auto bare = [&](const UOp& u) -> UOp {
    if (u.op() == Op::BUFFER && u.src(0).op() == Op::UNIQUE) {
      result.memory.push_back(u);
      const UOp size = UOp::index(u.arg().integer());
      return UOp::make(Op::PARAM, u.dtype(), {size, u.src(1)}, std::ssize(result.memory) - 1);
    }
    if (u.op() == Op::BIND && u.src().size() == 2) {
      const auto [variable, value] = u.unbind();
      const std::string& name = variable.arg().variable().name;
      const auto [known, added] = result.variables.emplace(name, value);
      if (known->second != value)
        throw Error(fmt::format("variable {} is bound to {} and to {} in one computation", name,
                                known->second, value));
      return UOp::make(Op::BIND, u.dtype(), {variable});
    }
    return {};
  };
  constexpr OpSet kStripped = {Op::BUFFER, Op::BIND, Op::UNIQUE};
  UOps sources;
  walk(
      sink, [&](const UOp& u) { return u.ops_below().intersects(kStripped); },
      [&](const UOp& u) {
        if (UOp stripped = bare(u)) {
          done.emplace(u, std::move(stripped));
          return;
        }
        if (const UOp plain = without_identity(u)) {
          const UOp* known = done.find(plain);
          done.emplace(u, known ? *known : plain);
          return;
        }
        sources.clear();
        bool changed = false;
        if (u.ops_below().intersects(kStripped))
          for (const UOp& s : u.src()) {
            sources.push_back(*done.find(s));
            changed |= !same(sources.back(), s);
          }
        done.emplace(u, changed ? u.with_src(sources) : u);
      });
  result.sink = *done.find(sink);
  return result;
}

namespace {

// What else a schedule depends on.
Ints settings() {
  return {env::PCONTIG(), env::MAX_KERNEL_BUFFERS(), env::SPLIT_REDUCEOP(), env::REDUCEOP_SPLIT_THRESHOLD(),
          env::REDUCEOP_SPLIT_SIZE()};
}

struct Cache {
  static constexpr size_t kMost = 4096;
  std::mutex mutex;
  std::map<Ints, std::unordered_map<UOp, std::shared_ptr<const Prepared>>> schedules;
  CacheCounts counts{0, 0, 0};
};
Cache& cache() {
  static auto* const made = new Cache;  // NOLINT(cppcoreguidelines-owning-memory): holds nodes to the end
  return *made;
}

}  // namespace

std::shared_ptr<const Prepared> prepare(const UOp& stripped_sink) {
  Cache& all = cache();
  const Ints key = settings();
  {
    const std::lock_guard lock(all.mutex);
    auto& schedules = all.schedules[key];
    if (const auto found = schedules.find(stripped_sink); found != schedules.end()) {
      all.counts.hits++;
      if (env::DEBUG() >= 1)
        std::fputs(fmt::format("schedule: {} steps, known\n", found->second->schedule.steps.size()).c_str(),
                   stderr);
      return found->second;
    }
  }
  auto made = std::make_shared<Prepared>();
  made->schedule = make_schedule(
      stripped_sink, [](const std::string& name) -> const DeviceSpec& { return Device::get(name).spec(); });
  made->plan = plan_memory(made->schedule);
  if (env::DEBUG() >= 1)
    std::fputs(fmt::format("schedule: {} steps, made; memory plan saves {} bytes\n",
                           made->schedule.steps.size(), made->plan.bytes_saved)
                   .c_str(),
               stderr);
  const std::lock_guard lock(all.mutex);
  all.counts.misses++;
  if (all.counts.size >= static_cast<int64_t>(Cache::kMost)) all.schedules.clear(), all.counts.size = 0;
  if (all.schedules[key].emplace(stripped_sink, made).second) all.counts.size++;
  return made;
}

CacheCounts schedule_cache_counts() {
  const std::lock_guard lock(cache().mutex);
  return cache().counts;
}

void clear_schedule_cache() {
  const std::lock_guard lock(cache().mutex);
  cache().schedules.clear();
  cache().counts = {0, 0, 0};
}

}  // namespace quern
