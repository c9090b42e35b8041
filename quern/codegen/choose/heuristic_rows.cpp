// Lanes along a reduce.
#include "quern/codegen/choose/heuristic_chooser.h"

namespace quern::heuristic {

namespace {
constexpr int64_t kMostInLoop = 128;  // operations in a loop that was unrolled
}  // namespace

bool Chooser::lanes_along_reduce() {
  UOp along;
  for (const UOp& r : main_ranges_)
    if (lanes(r) > 1 && all_simple(r) && (!along || size(r) > size(along))) along = r;
  if (!along) {
    unroll_small_reduces(1);
    return false;
  }
  add_lanes(OptKind::UNROLL, along);
  for (size_t i = 0; i < around_.size(); i++)
    for (size_t k = i + 1; k < around_.size(); k++) {
      const UOp &a = around_[i], &b = around_[k];
      if (size(a) == 0 || size(b) == 0 || !is_reused(a, b) || !is_reused(b, a)) continue;
      const Tile t = tile(size(a), size(b));
      if (t.rows * t.columns == 1) continue;
      if (size(a) % t.rows != 0) add(OptKind::PADTO, a, t.rows);
      add(OptKind::UPCAST, a, t.rows);
      add(OptKind::UPCAST, b, t.columns);
      return true;
    }
  add(OptKind::UNROLL, along, divisor(vectors(along), nodes_in(along) <= kFewNodes ? 4 : 2));
  return true;
}

void Chooser::unroll_small_reduces(int64_t at_once) {
  for (const UOp& r : main_ranges_) {
    if (size(r) < 2 || size(r) > kMostUnrolled || at_once * size(r) > kMostInLoop) continue;
    add(OptKind::UNROLL, r, size(r));
    at_once *= size(r);
  }
}

}  // namespace quern::heuristic
