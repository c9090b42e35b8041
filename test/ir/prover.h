// The prover: checks rules against what eval.h says that ops compute, with no knowledge of any particular
// rule.
//
// check_instances() makes graphs that a rule's left side matches, applies the rule and compares the values
// before and after. Rules whose right side is an expression are gone over with plain variables: every dtype
// that fits, many bounds and constants, all values of 8-bit types. All rules are also met with random
// expressions in place of their variables. A rule that never applied is a failure, as is a value outside of
// the bounds of its node.
//
// solve() asks z3 whether the sides of a rule on integers or bools can differ: in mathematical integers
// (index) and in bit-vectors of 8 and 32 bits, signed and not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quern/ir/rules/rules.h"

namespace quern {

struct Effort {
  uint64_t seed = 1;
  double scale = 1;  // of the number of instances and points, and of the solver's limit
};

// What this run is to spend: 20 times as much with QUERN_NIGHTLY=1, little under sanitizers.
Effort usual_effort();

struct Proof {
  int64_t rules = 0;
  int64_t instances = 0;        // graphs that the rule changed
  int64_t least_instances = 0;  // of any rule, and which one that is
  std::string rarest;
  int64_t points = 0;  // values of their leaves that were compared
  int64_t overflows =
      0;                // of these, left out because index arithmetic overflowed in the rewritten graph only
  int64_t proved = 0;   // pairs of rule and dtypes that the solver proved,
  int64_t foreign = 0;  // that it has no words for,
  std::vector<std::string> unproved;  // and that it gave up on
  std::vector<std::string> failures;

  void add(const Proof& other);
  std::string summary() const;
};

Proof check_instances(const Rules& rules, const Effort& effort);
bool have_solver();
Proof solve(const Rules& rules, const Effort& effort);

}  // namespace quern
