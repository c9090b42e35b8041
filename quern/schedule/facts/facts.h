// What the scheduler wants to know of a tensor-level node before it decides anything: what it costs to
// compute one element again, and which axes the reduces below it depend on.
#pragma once

#include <cstdint>
#include <vector>

#include "quern/ir/node/node_map.h"
#include "quern/ir/node/uop.h"

namespace quern {

// Of the values that would be computed together with a node: down to memory, or to what surely gets memory.
struct Facts {
  bool contains_reduce = false;  // a reduce is among them
  uint64_t reduce_axes = 0;      // the axes of the node that these reduces depend on, as bits
  bool functions = false;        // so is one that takes many instructions, as EXP2 does
  int64_t cost = 0;              // operations for one element, the insides of reduces not counted
  int64_t steps = 0;             // of the loops of these reduces, for one element
  int64_t loads = 0;             // places in memory that are read for one element
  int64_t bytes = 0;  // memory that all elements together read, each buffer once for each time it is named
  UOp device;         // DEVICE; none: constants only
  bool materialised =
      false;  // it contains reduces and will surely get memory: to others it is as good as that
};

// Always in memory, whatever it costs: what the user asked for, what another device or a kernel of the user's
// needs.
bool has_memory(const UOp& u);

class FactsOf {
 public:
  explicit FactsOf(const NodeList& order);  // sources before users
  const Facts& operator[](const UOp& node) const { return *facts_.find(node); }

 private:
  Facts compute(const UOp& u) const;
  NodeMap<Facts> facts_;
};

bool is_function(Op op);  // of many instructions

int64_t size_of(const UOp& size);         // a number; a symbolic size at its largest
int64_t elements_at_most(Sources sizes);  // saturating

}  // namespace quern
