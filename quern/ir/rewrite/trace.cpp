#include "quern/ir/rewrite/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "quern/base/env.h"
#include "quern/base/fork.h"
#include "quern/ir/node/node_map.h"

namespace quern {

// What a recorder keeps. Passes that run hold a share of it, so that a recorder may end before they do.
struct Recorder::State : std::enable_shared_from_this<State> {
  std::mutex mutex;
  RewriteTrace trace;
  std::unordered_map<uint64_t, uint32_t> rules;  // by Rule::id
  std::map<std::thread::id, uint32_t> threads;
  State* outer = nullptr;  // the recorder of this thread that was made before
  uint32_t outside = 0;    // how many passes were running when it was made

  size_t begin(std::string_view name, const UOp& root, uint32_t running) {
    const std::lock_guard lock(mutex);
    const auto thread = threads.emplace(std::this_thread::get_id(), static_cast<uint32_t>(threads.size()));
    trace.passes.push_back(
        {std::string(name), root, {}, {}, std::max(running, outside) - outside, thread.first->second});
    return trace.passes.size() - 1;
  }
  uint32_t index_of(const Rule& rule) {
    const auto [known, added] = rules.emplace(rule.id(), static_cast<uint32_t>(trace.rules.size()));
    if (added) trace.rules.push_back({rule.text(), rule.location()});
    return known->second;
  }
};

// What statistics count.
struct PassCount {
  size_t calls = 0, rewrites = 0, nodes_before = 0, nodes_after = 0;
  int64_t time = 0;
};

struct RuleCount {
  size_t attempts = 0, matches = 0;
  int64_t match_time = 0, time = 0;
  void add(const RuleCount& o) {
    attempts += o.attempts, matches += o.matches;
    match_time += o.match_time, time += o.time;
  }
};

namespace {

thread_local Recorder::State* innermost_recorder = nullptr;
thread_local uint32_t running_passes = 0;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// ---- statistics

// Of the whole process. Never destroyed: threads may still rewrite while the program ends.
struct Statistics {
  ProcessMutex mutex{LockOrder::statistics};
  bool wanted = false;  // counted in detail::observers
  bool printed_at_exit = false;
  std::map<std::string, PassCount, std::less<>> passes;
  struct Counted {
    std::string location, text;
    RuleCount count;
  };
  std::unordered_map<uint64_t, Counted> rules;  // by Rule::id
};
Statistics& statistics() {
  static auto* const instance = new Statistics;  // NOLINT(cppcoreguidelines-owning-memory): see above
  return *instance;
}

size_t count_nodes(const UOp& root) {
  size_t nodes = 0;
  walk(root, [&](const UOp&) { nodes++; });
  return nodes;
}

double milliseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-6; }

constexpr auto slowest_first = [](const auto& a, const auto& b) {
  return a.second.time != b.second.time ? a.second.time > b.second.time : a.first < b.first;
};

std::string pass_table(const Statistics& s) {
  std::vector<std::pair<std::string_view, PassCount>> rows(s.passes.begin(), s.passes.end());
  std::ranges::sort(rows, slowest_first);
  PassCount total;
  size_t width = std::string_view("total").size();
  for (const auto& [name, row] : rows) {
    width = std::max(width, name.size());
    total.calls += row.calls, total.rewrites += row.rewrites, total.time += row.time;
    total.nodes_before += row.nodes_before, total.nodes_after += row.nodes_after;
  }
  rows.emplace_back("total", total);
  std::string text = fmt::format("{:<{}}  {:>8}  {:>12}  {:>12}  {:>12}  {:>10}\n", "pass", width, "calls",
                                 "time", "nodes before", "nodes after", "rewrites");
  for (const auto& [name, row] : rows)
    text += fmt::format("{:<{}}  {:>8}  {:>9.2f} ms  {:>12}  {:>12}  {:>10}\n", name, width, row.calls,
                        milliseconds(row.time), row.nodes_before, row.nodes_after, row.rewrites);
  return text;
}

std::string rule_table(const Statistics& s) {
  // Lists that were made more than once have equal rules with different ids.
  std::map<std::pair<std::string_view, std::string_view>, RuleCount> by_name;
  for (const auto& [id, rule] : s.rules) by_name[{rule.location, rule.text}].add(rule.count);
  std::vector<std::pair<std::pair<std::string_view, std::string_view>, RuleCount>> rows(by_name.begin(),
                                                                                        by_name.end());
  std::ranges::sort(rows, slowest_first);
  RuleCount total;
  size_t width = std::string_view("total").size();
  for (const auto& [name, row] : rows) {
    total.add(row);
    width = std::max(width, name.first.size());
  }
  rows.push_back({{"total", ""}, total});
  std::string text = fmt::format("{:>9} / {:>9} -- {:>10} / {:>10}    -- {:<{}}  {}\n", "matches", "attempts",
                                 "match time", "total time", "location", width, "rule");
  for (const auto& [name, row] : rows) {
    text += fmt::format("{:>9} / {:>9} -- {:>10.2f} / {:>10.2f} ms -- {:<{}}  {}", row.matches, row.attempts,
                        milliseconds(row.match_time), milliseconds(row.time), name.first, width, name.second);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

// Under the mutex. Printing at the program's end is arranged for once.
void follow_environment(Statistics& s) {
  s.wanted = env::TRACK_MATCH_STATS() > 0;
  if (s.wanted && !s.printed_at_exit)
    s.printed_at_exit = std::atexit([] {
                          if (!statistics().passes.empty()) std::fputs(match_statistics().c_str(), stderr);
                        }) == 0;
}

// ---- the recorder of the whole process

struct ProcessRecorder {
  std::string path;
  std::shared_ptr<Recorder::State> state = std::make_shared<Recorder::State>();

  void write() const {
    try {
      const std::lock_guard lock(state->mutex);
      write_trace(state->trace, path);
    } catch (const std::exception& error) {
      std::fputs(fmt::format("REWRITE_TRACE: {}\n", error.what()).c_str(), stderr);
    }
  }
};
std::atomic<const ProcessRecorder*> process_recorder{nullptr};  // none unless REWRITE_TRACE is set

}  // namespace

bool detail::observed_by_environment() {
  Statistics& s = statistics();
  const std::lock_guard lock(s.mutex);
  if (const int known = observers.load(std::memory_order_relaxed); known >= 0) return known != 0;
  const std::string& path = env::REWRITE_TRACE();
  follow_environment(s);
  if (!path.empty()) {
    process_recorder =
        new ProcessRecorder{.path = path};  // NOLINT(cppcoreguidelines-owning-memory): to the end
    std::atexit([] { process_recorder.load()->write(); });
  }
  const int wanted = (s.wanted ? 1 : 0) + (path.empty() ? 0 : 1);
  observers.store(wanted, std::memory_order_release);
  return wanted != 0;
}

std::string match_statistics() {
  Statistics& s = statistics();
  const std::lock_guard lock(s.mutex);
  std::string text = pass_table(s);
  if (!s.rules.empty()) text += "\n" + rule_table(s);
  return text;
}

void reset_match_statistics() {
  observing();  // the environment has been looked at
  Statistics& s = statistics();
  const std::lock_guard lock(s.mutex);
  s.passes.clear();
  s.rules.clear();
  const bool was_wanted = s.wanted;
  follow_environment(s);
  if (s.wanted != was_wanted) detail::observers.fetch_add(s.wanted ? 1 : -1, std::memory_order_relaxed);
}

// ---- a pass as it runs

// Everything is kept here until the pass ends, so that nothing is locked while it runs.
struct Observation::State {
  struct Listener {
    std::shared_ptr<Recorder::State> recorder;
    size_t pass;  // its place in the recorder's trace
  };
  struct Step {
    const Rule* rule;
    UOp before, after;
  };

  static thread_local State* innermost;

  std::string name;
  State* outer = innermost;
  const int64_t level = env::TRACK_MATCH_STATS();
  const int64_t begun = now();
  int64_t started = 0, nested = 0;  // when the rewrite itself began; how long other passes ran inside it
  std::vector<Listener> listeners;
  std::vector<Step> steps;
  UOp result;
  PassCount count;
  std::unordered_map<const Rule*, RuleCount> rules;

  void listen(std::shared_ptr<Recorder::State> recorder, const UOp& root) {
    const size_t pass = recorder->begin(name, root, running_passes);
    listeners.push_back({std::move(recorder), pass});
  }
  void report_steps() {
    for (const auto& [recorder, at] : listeners) {
      const std::lock_guard lock(recorder->mutex);
      RewritePass& pass = recorder->trace.passes[at];
      pass.result = result;
      pass.steps.reserve(steps.size());
      for (const Step& step : steps)
        pass.steps.push_back({recorder->index_of(*step.rule), step.before, step.after});
    }
  }
  void report_counts() {
    Statistics& s = statistics();
    const std::lock_guard lock(s.mutex);
    PassCount& pass = s.passes[name];
    pass.calls++, pass.rewrites += count.rewrites, pass.time += count.time;
    pass.nodes_before += count.nodes_before, pass.nodes_after += count.nodes_after;
    for (const auto& [rule, counts] : rules) {
      const auto [known, added] = s.rules.try_emplace(rule->id());
      if (added) known->second = {rule->location(), rule->text(), {}};
      known->second.count.add(counts);
    }
  }
};
thread_local Observation::State* Observation::State::innermost = nullptr;

Observation::Observation(std::string_view pass, const UOp& root) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.name = pass;
  counts_attempts_ = s.level >= 2;
  if (const ProcessRecorder* recorder = process_recorder) s.listen(recorder->state, root);
  for (Recorder::State* r = innermost_recorder; r; r = r->outer) s.listen(r->shared_from_this(), root);
  if (s.level >= 1) s.count.nodes_before = count_nodes(root);
  State::innermost = &s;
  running_passes++;
  s.started = now();
}

Observation::~Observation() {
  State& s = *state_;
  if (s.count.time == 0) s.count.time = now() - s.started - s.nested;  // an exception ends the pass
  s.report_steps();
  if (s.level >= 1) s.report_counts();
  State::innermost = s.outer;
  running_passes--;
  if (s.outer) s.outer->nested += now() - s.begun;
}

int64_t Observation::clock() const { return now() - state_->nested; }

void Observation::attempt(const Rule& rule, bool matched, int64_t nanoseconds) {
  RuleCount& count = state_->rules[&rule];
  count.attempts++;
  count.time += nanoseconds;
  if (!matched) return;
  count.matches++;
  count.match_time += nanoseconds;
}

void Observation::fired(const Rule& rule, const UOp& before, const UOp& after) {
  state_->count.rewrites++;
  if (!state_->listeners.empty()) state_->steps.push_back({&rule, before, after});
}

void Observation::finish(const UOp& result) {
  State& s = *state_;
  s.count.time = now() - s.started - s.nested;
  s.result = result;
  if (s.level >= 1) s.count.nodes_after = count_nodes(result);
}

// ---- recorders of a thread

Recorder::Recorder() : state_(std::make_shared<State>()) {
  observing();  // the environment has been looked at
  state_->outside = running_passes;
  state_->outer = std::exchange(innermost_recorder, state_.get());
  detail::observers.fetch_add(1, std::memory_order_relaxed);
}

Recorder::~Recorder() {
  State** link = &innermost_recorder;
  while (*link != state_.get()) link = &(*link)->outer;
  *link = state_->outer;
  detail::observers.fetch_sub(1, std::memory_order_relaxed);
}

const RewriteTrace& Recorder::trace() const { return state_->trace; }

}  // namespace quern
