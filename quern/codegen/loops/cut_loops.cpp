// Loops that become two, because indices or gates tell their steps apart.
#include <algorithm>
#include <optional>

#include "quern/codegen/loops/loops.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/rewrite/rewrite.h"

namespace quern {
namespace {

constexpr int64_t kFewParts = 4;  // that gates may tell apart: they are unrolled
constexpr int64_t kShort = 16;    // steps of a loop over outputs that are too few to be lanes

// A loop, and how many of its steps the inner one of its two loops has.
struct LoopCut {
  UOp range;
  int64_t inner = 0;
};

std::optional<LoopCut> cut_at(const UOp& range, const UOp& at, int64_t more = 0) {
  if (range.op() != Op::RANGE || !range.src(0).is_int_const() || !at.is_int_const()) return {};
  const AxisKind kind = range.arg().range().kind;
  if (kind != AxisKind::LOOP && kind != AxisKind::GLOBAL && kind != AxisKind::REDUCE) return {};
  const wide steps = range.src(0).int_value(), inner = at.int_value() + more;
  if (inner <= 1 || inner >= steps || steps % inner != 0) return {};
  if (kind != AxisKind::REDUCE && inner < kShort) return {};
  return LoopCut{range, static_cast<int64_t>(inner)};
}

std::optional<LoopCut> of_division(const UOp& u) {
  if (u.op() != Op::FLOORDIV && u.op() != Op::FLOORMOD) return {};
  return cut_at(u.src(0), u.src(1));
}

std::optional<LoopCut> of_gate(const UOp& u) {
  if (u.op() != Op::CMPLT) return {};
  std::optional<LoopCut> cut = cut_at(u.src(0), u.src(1));
  if (!cut) cut = cut_at(u.src(1), u.src(0), 1);
  if (cut && static_cast<int64_t>(cut->range.src(0).int_value()) / cut->inner > kFewParts) cut.reset();
  return cut;
}

// Of the first loop that has one, the one with the fewest steps inside.
template <class CutOf>
std::optional<LoopCut> next_cut(const UOp& program, const CutOf& cut_of) {
  std::optional<LoopCut> found;
  walk(program, [&](const UOp& u) {
    const std::optional<LoopCut> cut = cut_of(u);
    if (cut && (!found || (same(cut->range, found->range) && cut->inner < found->inner))) found = cut;
  });
  return found;
}

// A loop that is cut, and what it becomes.
struct Cutting {
  UOp range, outer, inner, both;
};

// Loops are in the order of their numbers: those behind the loop that is cut get the next ones.
UOp loop_beside_cut(const Cutting& c, const UOp& u, Sources now) {
  if (same(u, c.range)) return c.both;
  const RangeArg arg = u.arg().range();
  if (arg.id <= c.range.arg().range().id) return {};
  return UOp::make(Op::RANGE, u.dtype(), now, RangeArg{arg.id + 1, arg.kind});
}

UOp end_of_cut(const Cutting& c, const UOp& u, Sources sources) {
  UOps now;
  for (size_t k = 0; k < sources.size(); k++) {
    const bool closes = k >= sources_before_ranges(u) && same(u.src(k), c.range);
    now.push_back(closes ? c.outer : sources[k]);
    if (closes) now.push_back(c.inner);
  }
  return u.with_src(now);
}

const Rules cut_loop = [] {
  return RuleList{
      {op(Op::RANGE), loop_beside_cut, "a loop -> two, one in the other"},
      {op({Op::END, Op::REDUCE}), end_of_cut, "the end of the loop -> of both"},
  };
};

UOp with_cut(const UOp& program, const LoopCut& cut) {
  const auto [id, kind] = cut.range.arg().range();
  const UOp outer = UOp::range(static_cast<int64_t>(cut.range.src(0).int_value()) / cut.inner, id, kind);
  const UOp inner = UOp::range(cut.inner, id + 1, kind);
  Cutting cutting{cut.range, outer, inner, outer * cut.inner + inner};
  return graph_rewrite(program, cut_loop, cutting, {.order = Order::once, .name = "cut a loop"}).simplify();
}

template <class CutOf>
UOp with_all_cuts(UOp program, const CutOf& cut_of) {
  while (const std::optional<LoopCut> cut = next_cut(program, cut_of)) program = with_cut(program, *cut);
  return program;
}

}  // namespace

UOp cut_at_divisions(const UOp& program) {
  if ((program.ops_below() & OpSet{Op::FLOORDIV, Op::FLOORMOD}).empty()) return program;
  return with_all_cuts(program, of_division);
}

UOp cut_at_gates(const UOp& program) {
  if (!program.ops_below().contains(Op::CMPLT)) return program;
  return with_all_cuts(program, of_gate);
}

}  // namespace quern
