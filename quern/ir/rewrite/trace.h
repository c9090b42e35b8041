// What rewrites did: statistics per pass and per rule (TRACK_MATCH_STATS), and recorders that keep every
// rewrite (REWRITE_TRACE). When neither is on, a rewrite pays for one atomic load.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quern/ir/rules/rules.h"

namespace quern {

// ---- recorded rewrites

struct RuleName {
  std::string text;      // "i + 0 -> i"
  std::string location;  // "quern/ir/symbolic/identities.cpp:12"
};

// One rewrite of one node.
struct RewriteStep {
  uint32_t rule;  // in RewriteTrace::rules
  UOp before, after;
};

// One call of graph_rewrite.
struct RewritePass {
  std::string name;
  UOp root, result;                // no result: it ended with an error, or is still running
  std::vector<RewriteStep> steps;  // in the order in which they happened
  uint32_t depth = 0;              // how many passes of the trace it ran inside of
  uint32_t thread = 0;             // threads are numbered in the order of their first pass
};

// Passes are in the order in which they began: what ran inside a pass follows it, with a greater depth.
struct RewriteTrace {
  std::vector<RuleName> rules;
  std::vector<RewritePass> passes;
};

// Keeps the passes that this thread begins while it lives. Recorders nest; each is destroyed by the thread
// that made it.
class Recorder {
 public:
  Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();
  const RewriteTrace& trace() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// The compact form that the viewer reads (docs/trace-format.md). REWRITE_TRACE=path writes the rewrites of
// the whole process, all its threads, when it ends.
std::string encode_trace(const RewriteTrace& trace);
void write_trace(const RewriteTrace& trace, const std::string& path);

// An Error that names the byte for anything that is not a whole, valid trace.
RewriteTrace decode_trace(std::string_view bytes, std::string_view name = "trace");
RewriteTrace read_trace(const std::string& path);

// ---- statistics

// The tables of TRACK_MATCH_STATS so far, as text; printed to stderr when the program ends. A time is that of
// the pass or rule itself, without the passes that ran inside of it.
std::string match_statistics();

// Forgets what was counted, and reads TRACK_MATCH_STATS again.
void reset_match_statistics();

// ---- for graph_rewrite

namespace detail {
// How many recorders there are, and 1 for statistics. Negative: the environment has not been looked at.
inline constinit std::atomic<int> observers{-1};
bool observed_by_environment();
}  // namespace detail

// Does anybody want to know what rewrites do?
inline bool observing() {
  const int known = detail::observers.load(std::memory_order_relaxed);
  return known < 0 ? detail::observed_by_environment() : known != 0;
}

// One pass as it runs, reported to whoever listens.
class Observation : public detail::AttemptObserver {
 public:
  Observation(std::string_view pass, const UOp& root);
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;
  ~Observation() override;

  bool counts_attempts() const { return counts_attempts_; }
  int64_t clock() const override;
  void attempt(const Rule& rule, bool matched, int64_t nanoseconds) override;
  void fired(const Rule& rule, const UOp& before, const UOp& after);
  void finish(const UOp& result);

 private:
  struct State;
  std::unique_ptr<State> state_;
  bool counts_attempts_ = false;
};

}  // namespace quern
