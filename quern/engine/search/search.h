// A search for the opts with which a kernel is fastest, by measuring. What measures is given, so that the
// search itself knows no clock and no device.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "quern/codegen/lower.h"

namespace quern {

// A list of opts, and what became of it.
struct Candidate {
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  Opts opts;
  double seconds = kNever;  // the least that was measured
  std::string dropped;      // why there is no time; "" if there is one
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  // Gives each a time or a reason. What takes several times `best` need not be measured well.
  virtual void measure(std::vector<Candidate>& candidates, double best) = 0;
  // All again and well, in turn, so that what else the machine does is the same for all.
  virtual void measure_again(std::vector<Candidate>& candidates) = 0;
  // No time is left: the search ends with what it has.
  virtual bool is_over() = 0;
};

struct Found {
  Candidate best, chosen;  // chosen: by the heuristic
  std::vector<Candidate> candidates;
};

// Starts from what the heuristic chose and from no opts; the `width` best are followed by a step in every
// direction (codegen/choose/actions.h), as long as a round brings something. Lists that make the same kernel
// are measured once. What is found is not slower than what the heuristic chose, when both are measured again.
Found search(const Optimisable& kernel, int64_t width, Measurer& measurer);

}  // namespace quern
