// Lanes along outputs, where nothing is reduced.
#include "quern/codegen/choose/heuristic_chooser.h"

namespace quern::heuristic {

namespace {
constexpr int64_t kMostNodes = 200;  // a kernel of more is not unrolled beyond its lanes
constexpr int64_t kCostly = 30;      // nodes that a function stands for
constexpr int64_t kLinesAtOnce = 4;  // of each row that is written, while others are read across
}  // namespace

// What is done in each step of a loop.
int64_t Chooser::nodes_in(const UOp& range) const {
  constexpr OpSet costly = {Op::EXP2, Op::LOG2, Op::SIN, Op::COS, Op::POW};
  int64_t nodes = 0;
  for (const UOp& u : order_)
    if (is_open(u, range)) nodes += costly.contains(u.op()) ? kCostly : 1;
  return nodes;
}

// Elementwise: the loop along which most accesses are to neighbours.
void Chooser::lanes_of_outputs(const UOps& candidates) {
  UOp best;
  int64_t most = 0;
  for (const UOp& r : candidates) {
    int64_t points = 0;
    for (const std::vector<Access>* all : {&stores_, &loads_})
      for (const Access& a : *all)
        if (a.uses(r)) points += (a.is_neighbours(r) ? 1 : -1) * (all == &stores_ ? 3 : 1);
    if (lanes(r) > 1 && points > most) best = r, most = points;
  }
  if (!best) return;
  add_lanes(OptKind::UPCAST, best);
  // What is read across the lanes is read in squares, and few rows at once, so that all of a cache line is
  // used. Of what is written, whole lines.
  for (const UOp& r : candidates)
    for (const Access& a : loads_)
      if (!same(r, best) && a.is_neighbours(r) && a.uses(best) && !a.is_neighbours(best)) {
        const int64_t line =
            divisor(vectors(best), std::max<int64_t>(1, kCacheLine / spec_.parallel.vector_bytes));
        const int64_t lines = vectors(best) / line, block = divisor(lines, kLinesAtOnce);
        add(OptKind::UPCAST, best, line);
        if (block < lines && is_around_all(best)) add(OptKind::BLOCK, best, block);
        add(OptKind::UPCAST, r, divisor(size(r), width_));
        return;
      }
  const int64_t nodes = nodes_in(best);
  if (nodes <= kMostNodes) add(OptKind::UPCAST, best, divisor(vectors(best), nodes <= kFewNodes ? 4 : 2));
}

}  // namespace quern::heuristic
