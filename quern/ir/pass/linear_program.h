// A program as a list of instructions: what codegen makes of a kernel, and what renderers and INTERP take.
//
//   - Every node stands behind its sources. CONSTs, AFTERs and NOOPs are not listed: an AFTER says only in
//     which order things happen, and the list is that order. Nor is `where(gate, i, invalid)` in an INDEX.
//   - RANGE opens a loop and the END that closes it comes later; IF and ENDIF are brackets in the same way.
//   - A LOAD whose index has a gate reads nothing where the gate is closed: its second source is the value
//     there. A STORE whose index has a gate stands between the IF of that gate and its ENDIF.
//   - A LOAD or STORE of a vector may have a third source, a bool for each lane: only those lanes are
//     accessed for which it is true.
//   - A STORE with the tag "stream" may go past the caches. Its address is a multiple of the vector's size,
//     if the memory itself begins at one.
//   - A WHERE with the tag "rare" seldom takes its second source: what only that needs may be computed in a
//     branch, where its condition holds for some lane.
//   - A LOAD with an integer as tag says that what lies so many elements behind is read soon.
//   - A RANGE of kind THREAD may be run as a loop, or by that many threads at once: it is outermost, and its
//     steps do not depend on each other.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "quern/ir/node/uop.h"

namespace quern {

struct LinearProgram {
  std::string name;
  UOps list;
  Texts opts = {};  // that were applied
  // Where steps that are independent of each other were put together: the program in which they are not, for
  // arguments that overlap. None: this is it.
  std::function<LinearProgram()> in_order = {};

  // A line an instruction, indented by loops and gates: "%4 = ADD(%2, 1):int32".
  std::string text() const;
};

// Throws a SpecError that names the instruction, unless the list is as said above and all of it is of program
// level.
void check(const LinearProgram& program);

// The memory that a pointer points into: PARAM, DEFINE_LOCAL or DEFINE_REG.
const UOp& storage_of(const UOp& pointer);

inline bool is_streamed(const UOp& store) { return store.op() == Op::STORE && store.hints().stream; }

// A WHERE that seldom takes its second source.
inline bool is_rare(const UOp& u) { return u.op() == Op::WHERE && u.hints().rare; }

// For each of these: what only their second sources need, in order, in the loop in which they stand
// themselves. A WHERE among it has a part of its own. What several need is in the part of each. Parts that
// cost no more than a branch are left out.
std::unordered_map<UOp, UOps> rare_parts(const LinearProgram& program);

// How far behind a LOAD lies what is read soon; 0: nothing is known of it.
inline int64_t fetched_ahead(const UOp& load) { return load.op() == Op::LOAD ? load.hints().prefetch : 0; }

// Of an INDEX: has it a gate, which, and the index where it is open.
inline bool has_gate(const UOp& index) {
  return index.src(1).op() == Op::WHERE && index.src(1).src(2).is_invalid();
}
inline const UOp& gate_of(const UOp& index) { return index.src(1).src(0); }
inline const UOp& position_of(const UOp& index) {
  return has_gate(index) ? index.src(1).src(1) : index.src(1);
}

// The INDEX that an address is, under casts.
const UOp& index_of_address(const UOp& address);

}  // namespace quern
