// Evaluates expressions of scalars for given values of their leaves: what a rewrite must not change.
//
// Elementwise ops compute what eval.h says, Invalid included. Leaves are DEFINE_VAR, RANGE, SPECIAL and
// PARAM; a PARAM stands for a value of a dtype that has no variables (bool, floats).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "quern/ir/node/uop.h"

namespace quern {

// A leaf of any scalar dtype, without bounds.
UOp value_leaf(DType dtype, int64_t slot);

struct Evaluated {
  Const value;
  bool overflow =
      false;  // index arithmetic that the value depends on left 64 bits: no correct program does this
};

// Goes over the graph once, to be run many times.
class Evaluator {
 public:
  explicit Evaluator(Sources roots);
  explicit Evaluator(const UOp& root) : Evaluator(Sources(&root, 1)) {}

  const UOps& leaves() const { return leaves_; }  // distinct, in structural order
  // Values of the leaves, in their order. False when there is no such point: a variable outside its bounds, a
  // RANGE or SPECIAL that does not lie between 0 and its end.
  bool run(std::span<const Const> values);
  // Of the last run.
  const Evaluated& result(size_t root = 0) const { return values_[roots_[root]]; }
  // A node whose value is not within its bounds(), as text with the values of the leaves; empty if there is
  // none.
  std::string broken_bounds() const;
  std::string point() const;  // "a = 3, b = -1"

 private:
  struct Step {
    UOp node;
    int leaf = -1;
    uint32_t sources[3] = {0, 0, 0};
    uint8_t count = 0;
    bool countable = false;
    Bounds bounds{};
  };
  UOps leaves_;
  std::vector<Step> steps_;
  std::vector<Evaluated> values_;
  std::vector<size_t> roots_;
};

// The value of the expression at one point, or none when there is no such point or index arithmetic
// overflows.
std::optional<Const> evaluate(const UOp& expression, const std::unordered_map<UOp, Const>& leaves);

// May a rewrite turn the first value into the second? The same bits, NaN for NaN; anything for Invalid.
inline bool agrees(Const before, Const after) { return before.is_invalid() || before == after; }

}  // namespace quern
