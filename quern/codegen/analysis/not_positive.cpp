#include "quern/codegen/analysis/not_positive.h"
#include "quern/ir/node/reduce.h"
#include "quern/ir/rewrite/rewrite.h"

#include <algorithm>
#include <unordered_map>

namespace quern {
namespace {

constexpr size_t kMostPairs = 500;  // of nodes that are compared

// `value` is one of the values that are reduced: the same expression, with a loop of as many steps for each
// of the reduce.
bool is_one_of(const UOp& value, const UOp& reduce) {
  const auto is_reduced = [&](const UOp& u) { return u.op() == Op::RANGE && closes(reduce, u); };
  std::vector<std::pair<UOp, UOp>> pairs{{value, Reduction(reduce).value()}};
  std::unordered_map<UOp, UOp> loops;  // of the reduce, and those in their place
  size_t compared = 0;
  while (!pairs.empty()) {
    const auto [a, b] = std::move(pairs.back());
    pairs.pop_back();
    if (++compared > kMostPairs) return false;
    if (is_reduced(b)) {
      if (a.op() != Op::RANGE || !same(a.src(0), b.src(0)) || !same(loops.emplace(b, a).first->second, a))
        return false;
      continue;
    }
    if (same(a, b) && std::ranges::none_of(b.ranges(), is_reduced)) continue;
    if (a.op() != b.op() || a.dtype() != b.dtype() || a.arg() != b.arg() || a.src().size() != b.src().size())
      return false;
    for (size_t i = 0; i < a.src().size(); i++) pairs.emplace_back(a.src(i), b.src(i));
  }
  return true;
}

bool is_negated(const UOp& u) {
  return u.op() == Op::NEG || (u.op() == Op::MUL && u.src(1).is_const() && u.src(1).value().as_float() == -1);
}

bool is_below_greatest(const UOp& given) {
  const bool scaled = given.op() == Op::MUL && given.src(1).is_const() && given.src(1).value().as_float() > 0;
  const UOp& u = scaled ? given.src(0) : given;
  if (u.op() != Op::ADD && u.op() != Op::SUB) return false;
  const auto is = [](const UOp& x, const UOp& greatest) {
    return greatest.op() == Op::REDUCE && greatest.arg().reduce().op == Op::MAX && is_one_of(x, greatest);
  };
  const UOp &a = u.src(0), &b = u.src(1);
  if (u.op() == Op::SUB) return is(a, b);
  return (is_negated(b) && is(a, b.src(0))) || (is_negated(a) && is(b, a.src(0)));
}

UOp marked(const UOp& exp2, Sources now) {
  return is_below_greatest(exp2.src(0)) ? exp2.with_src(now).with_hint(&Hints::not_positive, true) : UOp();
}

}  // namespace

const Rules signs = [] {
  return RuleList{{op(Op::EXP2), marked, "EXP2 of x less the greatest x -> the same, marked"}};
};

UOp mark_not_positive(const UOp& program) {
  if (!program.ops_below().contains(Op::EXP2) || !program.ops_below().contains(Op::REDUCE)) return program;
  return graph_rewrite(program, signs, {.order = Order::once, .name = "signs"});
}

bool is_of_not_positive(const UOp& exp2) {
  if (exp2.hints().not_positive) return true;
  const UOp& u = exp2.src(0);
  if (u.op() != Op::WHERE || u.src(0).op() != Op::CMPLT) return false;
  const UOp &less = u.src(0).src(0), &more = u.src(0).src(1);
  if (!same(u.src(1), less) || !same(u.src(2), more)) return false;
  if (less.is_const()) return less.value().as_float() <= 0;
  return is_negated(more) && same(more.src(0), less);
}

}  // namespace quern
