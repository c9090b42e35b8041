// Which values get memory, and with which loops everything else is computed: the plan that ranges.cpp carries
// out.
//
// The graph is walked from its outputs to its inputs. Each node has been handed, by each of its users, an
// index for each of its axes: a use. It then either passes the uses on to its sources, rewritten by what it
// does to axes, and is computed anew for each of them; or it gets memory, filled by loops of its own, which
// all uses then read.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "quern/base/small_vector.h"
#include "quern/ir/node/uop.h"
#include "quern/ir/pass/device_spec.h"
#include "quern/schedule/facts/facts.h"
#include "quern/schedule/schedule.h"

namespace quern {

// A loop nest that writes memory: what a STORE writes, or a value that is materialised.
struct Nest {
  UOps index;   // an index for each axis of what is written: a RANGE, or 0
  UOps ranges;  // the RANGEs among them
  // Of reduces that are used in loops further inside: the RANGEs that they stand in. Sorted by size, each
  // contained in the next one: else no order of the loops suits all (why_not_in in fusion.cpp).
  std::vector<UOps> reduce_scopes;
  const DeviceSpec* spec = nullptr;
  UOp device;               // DEVICE
  int64_t bytes = 0;        // that all of it reads
  int64_t local_bytes = 0;  // of LOCAL memory that is promised
};

// The loops that are open where something is computed, those of outputs and of reduces, and the nest that
// they belong to.
struct Scope {
  int nest = -1;
  UOps loops;
};

// How a user reads a value: an index for each of its axes, and where.
struct Use {
  UOps index;
  int scope = -1;
};

struct NodePlan {
  std::vector<Use> uses;
  enum class Memory : uint8_t { none, local, global } memory = Memory::none;
  std::string reason;
  bool removable = true;        // if it turns out to be cheap
  bool keeps_all_axes = false;  // its memory has all axes, also those on which the value does not change
  int nest = -1;                // materialised, or a STORE: the nest that computes it
  UOps own_index;               // materialised: the index it is computed with
  std::vector<size_t> axes;     // in LOCAL: the axes that memory has
  std::vector<UOps> reduced;    // a REDUCE: the ranges that stand for its axes, for each use
  // source_uses[i][k]: which of the uses of source k is read when this node is computed for its use i.
  std::vector<SmallVector<uint32_t, 3>> source_uses;
  bool wanted_in_memory = false;  // by a COPY or a kernel of the user's
  bool overwritten = false;       // memory, or a state of it, that a STORE writes: the state is gone then
  bool forwarded = false;         // an AFTER: what was stored is computed again, not read
};

struct Plan {
  NodeList order;  // sources before users
  NodeMap<uint32_t> position;
  std::vector<NodePlan> nodes;
  std::vector<Nest> nests;
  std::vector<Scope> scopes;
  int64_t next_range = 0;
  // RANGEs of reduces that pick one element along them, which are no loops: the loops that the index depends
  // on.
  std::unordered_map<UOp, UOps> picked;

  Plan(const UOp& sink, const SpecOf& spec_of);
  NodePlan& of(const UOp& u) { return nodes[*position.find(u)]; }
  const NodePlan& of(const UOp& u) const { return nodes[*position.find(u)]; }
};

}  // namespace quern
