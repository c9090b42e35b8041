#include "quern/engine/realize/schedule_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "quern/base/env.h"
#include "quern/base/file.h"
#include "quern/base/profile.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/shape/movement.h"
#include "quern/schedule/canonicalise/functions.h"
#include "quern/schedule/facts/device_parts.h"
#include "quern/schedule/facts/memory_view.h"
#include "quern/tensor/ops/random.h"

namespace quern {

Stripped strip(const UOp& given) {
  const UOp sink = with_closed_functions(given);
  Stripped result;
  NodeMap<UOp> done;
  // Variables of random numbers have names of their own, which say nothing: they are counted.
  std::unordered_map<UOp, UOp> random;
  auto numbered = [&](const UOp& variable) {
    const VariableArg& v = variable.arg().variable();
    const std::string_view name = v.name;
    if (!name.starts_with(detail::kDrawn) && !name.starts_with(detail::kKey)) return variable;
    UOp& known = random[variable];
    const std::string_view kind = name.starts_with(detail::kDrawn) ? detail::kDrawn : detail::kKey;
    if (!known)
      known = UOp::variable(fmt::format("{}{}", kind, random.size() - 1), v.min, v.max, variable.dtype());
    return known;
  };
  auto bare = [&](const UOp& u) -> UOp {
    if (u.op() == Op::BUFFER && u.src(0).op() == Op::UNIQUE) {
      result.memory.push_back(u);
      const UOp size = UOp::index(u.arg().integer());
      return UOp::make(Op::PARAM, u.dtype(), {size, u.src(1)}, std::ssize(result.memory) - 1);
    }
    if (u.op() == Op::BIND && u.src().size() == 2) {
      const auto [named, value] = u.unbind();
      const UOp variable = numbered(named);
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
  return {env::PCONTIG(),
          env::MAX_KERNEL_BUFFERS(),
          env::SPLIT_REDUCEOP(),
          env::REDUCEOP_SPLIT_THRESHOLD(),
          env::REDUCEOP_SPLIT_SIZE(),
          env::RING()};
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

namespace {

std::shared_ptr<const Prepared> prepared(const UOp& stripped_sink, int depth);

// Calls of functions become the steps of what is called, over the memory of the call.
std::vector<Step> with_calls_expanded(std::vector<Step> steps, int depth) {
  if (std::ranges::none_of(steps, &Step::is_call)) return steps;
  int64_t next = 0;
  for (const Step& step : steps)
    for (const UOp& b : step.buffers) next = std::max(next, next_identity(b));
  std::vector<Step> all;
  for (Step& step : steps) {
    if (!step.is_call) {
      all.push_back(std::move(step));
      continue;
    }
    const auto body = prepared(step.program, depth + 1);
    std::unordered_map<UOp, UOp> memory;
    auto add = [&](const UOp& u) {
      if (u.op() == Op::PARAM)
        memory.emplace(u, step.buffers.at(static_cast<size_t>(u.arg().integer())));
      else if (u.op() == Op::BUFFER && !memory.contains(u))
        memory.emplace(u, u.with_src(UOps{UOp::make(Op::LUNIQUE, dtypes::void_, {}, next++), u.src(1)}));
    };
    for (const Step& inner : body->schedule.steps) {
      Step made{inner.program, {}};
      for (const UOp& b : inner.buffers) {
        for (const UOp& u : states_under(b)) add(u);
        made.buffers.push_back(b.substitute(memory));
      }
      all.push_back(std::move(made));
    }
  }
  return all;
}

// For GRAPHS. In one call, so that several threads and processes can add to one file.
void append_graph(const std::string& path, const UOp& graph) {
  const std::string text = fmt::format("# graph {}\n{}\n", graph.key(), graph.text());
  const Descriptor file(::open(system_path(path), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!file.is_open() || ::write(file.number(), text.data(), text.size()) != std::ssize(text))
    throw Error(fmt::format("GRAPHS={}: it cannot be written: {}", path, std::strerror(errno)));
}

constexpr int kMostNested = 64;

std::shared_ptr<const Prepared> prepared(const UOp& stripped_sink, int depth) {
  if (depth > kMostNested)
    throw Error(
        fmt::format("functions that are compiled on their own call each other {} deep; the most is {}", depth,
                    kMostNested));
  const bool tells = env::DEBUG() >= 1 && depth == 0;
  Cache& all = cache();
  const Ints key = settings();
  {
    const std::lock_guard lock(all.mutex);
    auto& schedules = all.schedules[key];
    if (const auto found = schedules.find(stripped_sink); found != schedules.end()) {
      all.counts.hits++;
      if (tells)
        std::fputs(fmt::format("schedule: {} steps, known\n", found->second->schedule.steps.size()).c_str(),
                   stderr);
      return found->second;
    }
  }
  if (const std::string& file = env::GRAPHS(); !file.empty()) append_graph(file, stripped_sink);
  const profile::Timer timer("schedule: the rest");
  auto made = std::make_shared<Prepared>();
  made->schedule = make_schedule(
      stripped_sink, [](const std::string& name) -> const DeviceSpec& { return Device::get(name).spec(); });
  made->schedule.steps = with_calls_expanded(std::move(made->schedule.steps), depth);
  made->plan = plan_memory(made->schedule);
  if (tells)
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

}  // namespace

std::shared_ptr<const Prepared> prepare(const UOp& stripped_sink) { return prepared(stripped_sink, 0); }

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
