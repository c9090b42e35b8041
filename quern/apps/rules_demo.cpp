// quern demo rules: a small expression is simplified step by step.
#include <iostream>

#include "quern/apps/rules_demo.h"
#include "quern/apps/steps.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern::apps {
namespace {

// The element of a 6 x 8 matrix that is read when it is seen as 12 x 4, padded by one row, and seen as 6 x 8
// again.
UOp views() {
  const UOp row = UOp::range(6, 0), column = UOp::range(8, 1);
  const UOp flat = row * 8 + column;
  const UOp padded_row = flat / 4 + 1, padded_column = flat % 4;
  const UOp inside = (padded_row > 0) & (padded_row < 13);
  const UOp again = (padded_row - 1) * 4 + padded_column;
  return where(inside, again / 8 * 8 + again % 8, UOp::invalid());
}

}  // namespace

void show_rules() {
  const UOp before = views();
  std::cout << "A 6 x 8 matrix is seen as 12 x 4, padded, and seen as 6 x 8 again. Which element is read?\n\n"
            << before.text() << "\n\nThe rules that fire, one by one:\n\n";
  const Recorder recorder;
  const UOp after = before.simplify();
  print_steps(std::cout, recorder.trace());
  std::cout << "\nWhat is left of " << before.toposort().size() << " nodes is " << after.toposort().size()
            << ":\n\n"
            << after.text() << "\n";
}

}  // namespace quern::apps
