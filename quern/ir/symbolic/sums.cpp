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

// b * (x % c) is b * x - b * c * (x // c), and the other way about. Either is used when it makes the sum shorter:
// so (x // c) * c + x % c becomes x, and x - (x // c) * c becomes x % c.
std::optional<Linear> join_remainders(const Linear& sum) {
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
    auto shorter = add(sum, {.dtype = sum.dtype, .terms = {{term, 1}}, .constant = 0}, -factor);
    if (shorter) shorter = add(*shorter, *inside, scale);
    if (shorter) shorter = add(*shorter, *rest, mod ? -step : -scale);
    if (shorter && shorter->terms.size() < sum.terms.size()) return shorter;
    if (!mod) continue;
    // x % c + ((x // c) % d) * c is x % (c * d)
    for (const auto& [t, f] : sum.terms) {
      if (f != step || t.op() != Op::FLOORMOD || !t.src(1).is_int_const() || !same(t.src(0), other)) continue;
      const wide both = saturating_mul(c, t.src(1).int_value());
      if (both <= 0 || !fits(sum.dtype, both)) continue;
      auto joined = add(sum, {.dtype = sum.dtype, .terms = {{term, 1}}, .constant = 0}, -factor);
      if (joined) joined = add(*joined, {.dtype = sum.dtype, .terms = {{t, 1}}, .constant = 0}, -f);
      const auto whole = linear_of(floor_remainder(x, both));
      if (joined && whole) joined = add(*joined, *whole, factor);
      if (joined && whole) return joined;
    }
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
