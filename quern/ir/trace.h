// What rewrites did: statistics per pass and per rule (TRACK_MATCH_STATS), and a recorder that keeps every rewrite.
// When neither is on, a rewrite pays for one atomic load.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quern/ir/rules.h"

namespace quern {

// One rewrite of one node.
struct RewriteStep {
  std::string rule;      // "i + 0 -> i"
  std::string location;  // "quern/ir/symbolic/identities.cpp:12"
  UOp before, after;
};

// One call of graph_rewrite. Passes that ran inside a rule of another pass have a greater depth.
struct RewritePass {
  std::string name;
  UOp root, result;
  std::vector<RewriteStep> steps;
  int depth = 0;
};

using RewriteTrace = std::vector<RewritePass>;

// Keeps the rewrites of this thread while it lives; recorders nest, each sees what happens inside its own life.
class Recorder {
 public:
  Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();
  const RewriteTrace& trace() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  friend class Observation;
};

// The compact file that the viewer reads (docs/trace-format.md). REWRITE_TRACE=path writes one at the program's end.
void write_trace(const RewriteTrace& trace, const std::string& path);
RewriteTrace read_trace(const std::string& path);  // Error on anything that is not a whole, valid trace

// The tables of TRACK_MATCH_STATS so far, as text; printed to stderr at the program's end.
std::string match_statistics();
void reset_match_statistics();

bool observing();

// One pass as it runs, reported to whoever listens.
class Observation : public detail::AttemptObserver {
 public:
  Observation(std::string_view pass, const UOp& root);
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;
  ~Observation() override;
  void attempt(const Rule& rule, bool matched, int64_t nanoseconds) override;
  void fired(const Rule& rule, const UOp& before, const UOp& after);
  void finish(const UOp& result);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quern
