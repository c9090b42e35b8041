// Sums, products, min/max and conditions in one order, with equal parts brought together.
#include <algorithm>

#include "quern/ir/eval.h"
#include "quern/ir/saturate.h"
#include "quern/ir/symbolic.h"
#include "quern/ir/symbolic/division.h"
#include "quern/ir/symbolic/linear.h"

namespace quern {
namespace {

constexpr size_t kMostOperands = 64;

bool divides(const Linear::Term& t) { return t.value.op() == Op::FLOORMOD || t.value.op() == Op::FLOORDIV; }

// Two divisions fewer, or fewer terms. One division fewer would not do: in -2 * (x // 2) + x % 2 both digits of x can be
// seen, in 2 * (x % 2) - x they cannot.
bool is_shorter(const Linear& a, const Linear& b) {
  const auto x = std::count_if(a.terms.begin(), a.terms.end(), divides);
  const auto y = std::count_if(b.terms.begin(), b.terms.end(), divides);
  return x + 2 <= y || (x <= y && a.terms.size() < b.terms.size());
}

Linear one_term(const UOp& u) { return {.dtype = u.dtype(), .terms = {{u, 1}}, .constant = 0}; }

// x, if u is x // c and x differs from y by a multiple of c.
std::optional<Linear> dividend_like(const UOp& u, wide c, const Linear& y) {
  if (u.op() != Op::FLOORDIV || !u.src(1).equals(c)) return std::nullopt;
  auto x = linear_of(u.src(0));
  const auto apart = x && x->exact() ? add(*x, y, -1) : std::nullopt;
  if (!apart || apart->constant % c != 0 || gcd_of_factors(*apart, c) != c) return std::nullopt;
  return x;
}

// y % c + (x // c) * c is x, and y % c + ((x // c + z) % d) * c is (x + z * c) % (c * d), where x differs from y by a
// multiple of c. All with a factor.
std::optional<Linear> join_with_remainder(const Linear& sum, const UOp& mod, wide factor, wide c, const Linear& y) {
  const wide step = saturating_mul(factor, c);
  for (const auto& [t, f] : sum.terms) {
    if (f % step != 0) continue;
    const auto rest = add(sum, one_term(mod), -factor);
    if (const auto x = dividend_like(t, c, y); x && rest) {
      auto joined = add(*rest, *x, factor);
      if (joined) joined = add(*joined, one_term(t), -step);
      if (joined && is_shorter(*joined, sum)) return joined;
    }
    if (f != step || t.op() != Op::FLOORMOD || !t.src(1).is_int_const() || !rest) continue;
    const wide both = saturating_mul(c, t.src(1).int_value());
    const auto inside = linear_of(t.src(0));
    if (both <= 0 || !fits(sum.dtype, both) || !inside) continue;
    for (const auto& [v, g] : inside->terms) {
      const auto x = g == 1 ? dividend_like(v, c, y) : std::nullopt;
      auto z = x ? add(*inside, one_term(v), -1) : std::nullopt;
      if (z) z = add(*x, *z, c);
      if (!z || !z->exact()) continue;
      const auto whole = linear_of(floor_remainder(to_uop(*z), both));
      auto joined = whole ? add(*rest, one_term(t), -f) : std::nullopt;
      if (joined) joined = add(*joined, *whole, factor);
      if (joined && is_shorter(*joined, sum)) return joined;
    }
  }
  return std::nullopt;
}

// b * (x % c) is b * x - b * c * (x // c), and the other way about. Either is used when it makes the sum shorter:
// so (x // c) * c + x % c becomes x, and x - (x // c) * c becomes x % c.
std::optional<Linear> join_remainders(const Linear& sum) {
  if (sum.terms.size() < 2) return std::nullopt;
  for (const auto& [term, factor] : sum.terms) {
    const bool mod = term.op() == Op::FLOORMOD, div = term.op() == Op::FLOORDIV;
    if ((!mod && !div) || !term.src(1).is_int_const()) continue;
    const UOp& x = term.src(0);
    const wide c = term.src(1).int_value();
    if (c <= 0) continue;
    const wide scale = mod ? factor : factor / c;  // of x
    if (div && factor % c != 0) continue;
    const wide step = saturating_mul(scale, c);
    const bool partner = std::any_of(sum.terms.begin(), sum.terms.end(), [&](const Linear::Term& t) {
      return !same(t.value, term) && (mod ? t.factor % step == 0 : t.factor % scale == 0);
    });
    const auto inside = partner ? linear_of(x) : std::nullopt;
    if (!inside || !inside->exact()) continue;
    const UOp other = mod ? floor_divided(x, c) : floor_remainder(x, c);
    const auto rest = linear_of(other);
    if (!rest || !rest->exact()) continue;
    auto shorter = add(sum, one_term(term), -factor);
    if (shorter) shorter = add(*shorter, *inside, scale);
    if (shorter) shorter = add(*shorter, *rest, mod ? -step : -scale);
    if (shorter && is_shorter(*shorter, sum)) return shorter;
    if (!mod) continue;
    if (auto joined = join_with_remainder(sum, term, factor, c, *inside)) return joined;
  }
  return std::nullopt;
}

UOp order_sum(const UOp& u) {
  auto sum = linear_of(u);
  if (!sum) return {};
  while (auto shorter = join_remainders(*sum)) sum = std::move(shorter);
  return to_uop(*sum);
}

// MUL of integers that is no linear form, MAX, MIN, AND, OR, XOR: a flat list of operands in order.
UOp order_operands(const UOp& u) {
  const Op op = u.op();
  UOps operands, stack{u.src(1), u.src(0)};
  while (!stack.empty()) {
    UOp x = std::move(stack.back());
    stack.pop_back();
    if (x.op() == op && x.dtype() == u.dtype()) {
      stack.push_back(x.src(1));
      stack.push_back(x.src(0));
    } else {
      operands.push_back(std::move(x));
    }
    if (operands.size() + stack.size() > kMostOperands) return {};
  }
  std::sort(operands.begin(), operands.end(), before);
  if (op == Op::XOR) {  // pairs cancel
    UOps odd;
    for (UOp& x : operands)
      if (!odd.empty() && same(odd.back(), x))
        odd.pop_back();
      else
        odd.push_back(std::move(x));
    operands = std::move(odd);
    if (operands.empty()) return UOp::constant(u.dtype(), identity_element(Op::XOR, u.dtype()));
  } else if (op != Op::MUL) {  // x op x is x
    operands.erase(std::unique(operands.begin(), operands.end(), [](const UOp& a, const UOp& b) { return same(a, b); }),
                   operands.end());
  }
  while (operands.size() > 1 && operands.back().is_const() && operands[operands.size() - 2].is_const()) {
    const UOp last = std::move(operands.back());
    operands.pop_back();
    const Const pair[] = {operands.back().value(), last.value()};
    operands.back() = UOp::constant(u.dtype(), eval(op, u.dtype(), u.dtype(), pair));
  }
  UOp result = operands[0];
  for (size_t i = 1; i < operands.size(); i++) result = UOp::make(op, u.dtype(), {result, operands[i]});
  return result;
}

// A float sum or product keeps its tree; only the two operands change places.
UOp swap_operands(const UOp& u) {
  return before(u.src(1), u.src(0)) ? u.with_src(UOps{u.src(1), u.src(0)}) : UOp();
}

}  // namespace

const Rules sums = [] {
  return RuleList{
      {op({Op::ADD, Op::MUL}).of(types::ints).as("x"), order_sum, "a sum -> its terms in order, like terms added"},
      {op({Op::MUL, Op::AND, Op::OR, Op::XOR}).of(types::exact).as("x"), order_operands,
       "a chain of one op -> its operands in order"},
      {op({Op::MAX, Op::MIN}).of(types::values).as("x"), order_operands, "a chain of min or max -> its operands in order"},
      {op({Op::ADD, Op::MUL}).of(types::floats).as("x"), swap_operands, "x op y -> y op x"},
      {op({Op::CMPEQ, Op::CMPNE}, {floats(""), floats("")}).as("x"), swap_operands, "x == y -> y == x"},
  };
};

}  // namespace quern
