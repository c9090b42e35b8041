// Comparisons of integers: terms moved so that a constant stands on the right, and conditions that follow
// from each other.
#include <algorithm>

#include "quern/ir/node/saturate.h"
#include "quern/ir/symbolic/linear.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

UOp truth(const UOp& like, bool value) { return UOp::constant(like.dtype(), Const::of_bool(value)); }
UOp negated(const UOp& condition) {
  return UOp::make(Op::XOR, condition.dtype(), {condition, truth(condition, true)});
}

// a - b as a sum, when neither side wraps.
std::optional<Linear> difference(const UOp& a, const UOp& b) {
  const auto x = linear_of(a), y = linear_of(b);
  if (!x || !y || !x->exact() || !y->exact()) return std::nullopt;
  if (a.dtype().is_index()) return add(*x, *y, -1);
  // In mathematical integers, not those of the dtype.
  Linear wide_x = *x, wide_y = *y;
  wide_x.dtype = wide_y.dtype = dtypes::index;
  return add(wide_x, wide_y, -1);
}

// Terms with positive factors on the left, the others with the constant on the right. None when a side may
// wrap.
UOp compare_sides(const UOp& u, Op op, const Linear& sum, wide right_constant) {
  const DType dtype = u.src(0).dtype();
  Linear left{.dtype = dtype, .terms = {}, .constant = 0},
      right{.dtype = dtype, .terms = {}, .constant = right_constant};
  for (const auto& [value, factor] : sum.terms) {
    Linear& side = factor > 0 ? left : right;
    side.terms.push_back({value, factor > 0 ? factor : -factor});
    if (!fits(dtype, side.terms.back().factor)) return {};
  }
  if (!fits(dtype, right_constant) || !left.exact() || !right.exact()) return {};
  return UOp::make(op, u.dtype(), {to_uop(left), to_uop(right)});
}

// sum < m, where the sum has no constant. Factors that all share are divided out, parts too small to matter
// dropped.
UOp less(const UOp& u, Linear sum, wide m) {
  while (true) {
    const Bounds b = sum.interval();
    if (b.max < m) return truth(u, true);
    if (b.min >= m) return truth(u, false);
    if (const wide g = gcd_of_factors(sum); g > 1) {
      sum = split_multiples(sum, g).first;
      m = ceil_div(m, g);
      continue;
    }
    // d * a + e < q * d + s with 0 <= e < d is a < q + 1 when e < s, and a < q when e >= s
    bool dropped = false;
    for (const auto& term : sum.terms) {
      const wide d = term.factor < 0 ? -term.factor : term.factor;
      if (d < 2) continue;
      auto [multiples, rest] = split_multiples(sum, d);
      const Bounds e = rest.interval();
      const wide q = floor_div(m, d), s = m - q * d;
      if (e.min < 0 || e.max >= d || (e.max >= s && e.min < s)) continue;
      m = e.max < s ? q + 1 : q;
      sum = std::move(multiples);
      dropped = true;
      break;
    }
    if (dropped) continue;
    // x // d < m is x < m * d
    if (sum.terms.size() == 1 && sum.terms[0].factor == 1 && sum.terms[0].value.op() == Op::FLOORDIV) {
      const UOp div = sum.terms[0].value;
      const auto inside = linear_of(div.src(0));
      if (div.src(1).is_int_const() && div.src(1).int_value() > 0 && inside && inside->exact()) {
        m = saturating_mul(m, div.src(1).int_value()) - inside->constant;
        sum = *inside;
        sum.constant = 0;
        sum.dtype = dtypes::index;
        if (!fits(dtypes::index, m)) return {};
        continue;
      }
    }
    break;
  }
  if (sum.terms[0].factor > 0) return compare_sides(u, Op::CMPLT, sum, m);
  // -x < m is not (x < 1 - m)
  for (auto& term : sum.terms) term.factor = -term.factor;
  const UOp opposite = compare_sides(u, Op::CMPLT, sum, 1 - m);
  return opposite ? negated(opposite) : UOp();
}

UOp simplify_less(const UOp& u, const UOp& a, const UOp& b) {
  auto sum = difference(a, b);
  if (!sum) return {};
  const wide m = -sum->constant;
  sum->constant = 0;
  if (sum->terms.empty()) return truth(u, 0 < m);
  return less(u, std::move(*sum), m);
}

UOp simplify_equal(const UOp& u, const UOp& a, const UOp& b) {
  auto sum = difference(a, b);
  if (!sum) return before(b, a) ? u.with_src(UOps{b, a}) : UOp();
  const bool equal = u.op() == Op::CMPEQ;
  wide m = -sum->constant;
  sum->constant = 0;
  if (sum->terms.empty()) return truth(u, equal == (m == 0));
  const wide g = gcd_of_factors(*sum);
  const Bounds range = sum->interval();
  if (m % g != 0 || m < range.min || m > range.max) return truth(u, !equal);
  const bool flip = sum->terms[0].factor < 0;
  for (auto& term : sum->terms) term.factor = term.factor / (flip ? -g : g);
  return compare_sides(u, u.op(), *sum, m / (flip ? -g : g));
}

// ---- conditions joined by AND: bounds on the same expression
// ------------------------------------------------------

// A clause `x < m`, or `not x < m`.
struct Clause {
  UOp x;
  wide m;
  bool below;
};
std::optional<Clause> clause_of(const UOp& u) {
  const bool is_not = u.op() == Op::XOR && u.src(1).equals(1);
  const UOp& test = is_not ? u.src(0) : u;
  if (test.op() != Op::CMPLT || !test.src(1).is_int_const()) return std::nullopt;
  return Clause{test.src(0), test.src(1).int_value(), !is_not};
}

// Of two clauses about the same expression, one may imply or contradict the other.
UOp join_clauses(const UOp& u) {
  UOps operands, stack{u};
  while (!stack.empty()) {
    UOp x = std::move(stack.back());
    stack.pop_back();
    if (x.op() == Op::AND && operands.size() + stack.size() < 32) {
      stack.push_back(x.src(1));
      stack.push_back(x.src(0));
    } else {
      operands.push_back(std::move(x));
    }
  }
  std::vector<std::optional<Clause>> clauses;
  for (const UOp& x : operands) clauses.push_back(clause_of(x));
  std::vector<bool> implied(operands.size());
  for (size_t i = 0; i < operands.size(); i++)
    for (size_t j = 0; j < operands.size(); j++) {
      const std::optional<Clause>&a = clauses[i], &b = clauses[j];
      if (i == j || implied[j] || !a || !b || !same(a->x, b->x)) continue;
      if (a->below == b->below && (a->below ? b->m <= a->m : b->m >= a->m) && (a->m != b->m || j < i))
        implied[i] = true;
      if (a->below && !b->below && a->m <= b->m) return truth(u, false);  // x < a and x >= b
    }
  UOp result;
  bool changed = false;
  for (size_t i = 0; i < operands.size(); i++) {
    if (implied[i]) {
      changed = true;
      continue;
    }
    result = result ? UOp::make(Op::AND, u.dtype(), {result, operands[i]}) : operands[i];
  }
  return changed ? result : UOp();
}

}  // namespace

const Rules comparisons = [] {
  const Pat i = ints("i"), j = ints("j");
  return RuleList{
      {i < i, false},
      {i == i, true},
      {i != i, false},
      {op(Op::CMPLT, {i, j}).as("u"), simplify_less, "a < b -> terms moved, the constant on the right"},
      {op({Op::CMPEQ, Op::CMPNE}, {i, j}).as("u"), simplify_equal,
       "a == b -> terms moved, the constant on the right"},
      {op(Op::AND).of(types::bools).as("u"), join_clauses, "x < 3 & x < 5 -> x < 3"},
  };
};

}  // namespace quern
