// A kernel as the cost model sees it: how long its loops are, what is computed in which of them, and which
// memory is read and written how. Made once a kernel; candidates are then priced without touching the graph.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "quern/codegen/opt/opt.h"
#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"

namespace quern::cost {

// Loops by their numbers as opts have them, a bit each.
using LoopSet = uint64_t;
constexpr size_t kMostLoops = 64;
constexpr LoopSet bit(size_t loop) { return LoopSet{1} << loop; }
constexpr bool has(LoopSet set, size_t loop) { return (set >> loop & 1) != 0; }

struct Loop {
  int64_t steps = 1;  // of a symbolic loop a likely number
  bool is_symbolic = false, is_reduce = false;
  size_t sibling = 0;  // the first of the loops that are split together: those of reduces side by side
};

// A LOAD or a STORE.
struct Access {
  LoopSet loops = 0;                         // that its address depends on
  LoopSet gated = 0;                         // that its gate depends on
  LoopSet around = 0;                        // that it stands in, or could
  std::vector<std::optional<wide>> strides;  // in elements, for each loop; none: not the same for all steps
  std::vector<uint8_t> by_stride;  // the loops that it depends on, those with the nearest steps first
  int64_t bytes = 4;               // of an element
  int64_t argument = -1;           // the PARAM; -1: other memory
  bool is_store = false;
  bool is_stored_too = false;  // the same memory is written
  bool is_near = false;        // memory of the kernel's own
  LoopSet copied = 0;          // of these loops each step that is done at once has such memory of its own
};

// Instructions that are done for each step of the same loops.
struct Operations {
  LoopSet loops = 0, around = 0;
  std::array<double, kOpClasses> counts = {};
  int64_t bytes = 4;  // of the widest element among them
};

struct Reduction {
  LoopSet closed = 0;  // its loops
  LoopSet result = 0;  // that its result depends on
  LoopSet value = 0;   // that what is reduced depends on
  LoopSet around = 0;
  int64_t bytes = 4;
  bool is_fused = false;  // with the product that it adds up
};

struct Summary {
  std::vector<Loop> loops;
  std::vector<Access> accesses;
  std::vector<Operations> operations;
  std::vector<Reduction> reductions;
  LoopSet around_all = 0;  // loops that stand around everything that is stored
  int64_t nodes = 0;       // of the graph
  int64_t widest = 1;      // bytes of the widest element in memory or in a reduce
};

// `program` is a kernel after simplify_loops. None: it has more loops than a LoopSet.
std::optional<Summary> summary_of(const UOp& program);

}  // namespace quern::cost
