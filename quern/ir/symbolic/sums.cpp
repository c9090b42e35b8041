// Sums, products, min/max and conditions in one order, with equal parts brought together.
#include <algorithm>

#include "quern/ir/node/eval.h"
#include "quern/ir/node/node_map.h"
#include "quern/ir/node/saturate.h"
#include "quern/ir/symbolic/division.h"
#include "quern/ir/symbolic/linear.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

constexpr size_t kMostOperands = 64;

int divisions_in(const Linear& sum) {
  constexpr OpSet divisions = {Op::FLOORDIV, Op::FLOORMOD};
  int count = 0;
  for (const auto& term : sum.terms)
    if (term.value.ops_below().intersects(divisions))
      walk(
          term.value, [&](const UOp& u) { return u.ops_below().intersects(divisions); },
          [&](const UOp& u) { count += divisions.contains(u.op()) ? 1 : 0; });
  return count;
}

// A sum that is to become shorter. Its divisions are counted when something shorter is at hand.
class Sum {
 public:
  explicit Sum(const Linear& sum) : linear(sum) {}
  int divisions() const {
    if (!divisions_) divisions_ = divisions_in(linear);
    return *divisions_;
  }
  const Linear& linear;

 private:
  mutable std::optional<int> divisions_;
};

// Two divisions fewer, or fewer terms. One division fewer would not do: in -2 * (x // 2) + x % 2 both digits
// of x can be seen, in 2 * (x % 2) - x they cannot.
bool is_shorter(const Linear& a, const Sum& b) {
  const bool fewer_terms = a.terms.size() < b.linear.terms.size();
  if (!fewer_terms && b.divisions() < 2) return false;
  const int x = divisions_in(a);
  return x + 2 <= b.divisions() || (x <= b.divisions() && fewer_terms);
}

// The sum with `factor * term` replaced by `scale * (plus - minus)`, if that is shorter.
std::optional<Linear> replaced(const Sum& sum, const UOp& term, wide factor, wide scale, const UOp& plus,
                               const UOp& minus, wide factor_of_minus) {
  const auto x = linear_of(plus), y = linear_of(minus);
  if (!x || !y || !x->exact() || !y->exact()) return std::nullopt;
  auto result = total({{sum.linear, 1},
                       {term_of(term), -factor},
                       {*x, scale},
                       {*y, -saturating_mul(scale, factor_of_minus)}});
  return result && is_shorter(*result, sum) ? result : std::nullopt;
}

bool by_constant(const UOp& u, Op op) {
  return u.op() == op && u.src(1).is_int_const() && u.src(1).int_value() > 0;
}

// A digit with its factor, and what that leaves when size - 1 - m is written for the digit m.
struct Digit {
  wide factor, constant;
};
Digit opposite(Digit d, wide size) {
  return {-d.factor, saturating_add(d.constant, saturating_mul(d.factor, size - 1))};
}

// q % c + ((q // c + z) % d) * c is (q + z * c) % (c * d). Either digit m may be there as size - 1 - m, and q
// // c as x // (c * e).
std::optional<Linear> join_digits(const Sum& sum, const Linear::Term& low, const Linear::Term& high) {
  const wide c = low.value.src(1).int_value(), d = high.value.src(1).int_value();
  const auto inside = linear_of(high.value.src(0));
  if (!inside || !inside->exact() || !fits(inside->dtype, saturating_mul(c, d))) return std::nullopt;
  for (const auto& [v, sign] : inside->terms) {
    if ((sign != 1 && sign != -1) || !by_constant(v, Op::FLOORDIV) || v.src(1).int_value() % c != 0) continue;
    const UOp q = floor_divided(v.src(0), v.src(1).int_value() / c);
    const auto digits = linear_of(q), remainder = linear_of(floor_remainder(q, c));
    if (!digits || !digits->exact() || !remainder || remainder->terms.size() != 1) continue;
    const auto& [value, side] = remainder->terms[0];
    if (!same(value, low.value) || (side != 1 && side != -1) ||
        remainder->constant != (side == 1 ? 0 : c - 1))
      continue;
    Digit first{low.factor, 0}, second{high.factor, 0};
    if (side == -1) first = opposite(first, c);
    if (sign == -1) second = opposite(second, d);
    if (second.factor != saturating_mul(first.factor, c)) continue;

    const auto z = total({{*digits, 1},
                          {constant_sum(digits->dtype, sign == 1 ? 0 : -1), c},
                          {*inside, sign * c},
                          {term_of(v), -c}});
    if (!z || !z->fits_dtype()) continue;
    const auto whole = linear_of(floor_remainder(to_uop(*z), c * d));
    if (!whole) continue;
    const wide constant = saturating_add(first.constant, second.constant);
    auto joined = total({{sum.linear, 1},
                         {term_of(high.value), -high.factor},
                         {term_of(low.value), -low.factor},
                         {*whole, first.factor},
                         {constant_sum(whole->dtype, constant), 1}});
    if (joined && is_shorter(*joined, sum)) return joined;
  }
  return std::nullopt;
}

bool is_term_of(const UOp& value, const UOp& sum) {
  for (const UOp* rest = &sum;; rest = &rest->src(0)) {
    const bool last = rest->op() != Op::ADD;
    const UOp& term = last ? *rest : rest->src(1);
    if (same(term, value) || (term.op() == Op::MUL && same(term.src(0), value))) return true;
    if (last) return false;
  }
}

// c * (x // c) is x - x % c, and x % c is x - c * (x // c). Either is used when it makes the sum shorter: so
// (x // c) * c + x % c becomes x, and x - (x // c) * c becomes x % c.
std::optional<Linear> join_remainders(const Linear& linear) {
  if (linear.terms.size() < 2) return std::nullopt;
  const Sum sum(linear);
  // Something must cancel: another division, or a term of what is divided.
  auto partner = [&](const UOp& term, wide step) {
    return std::ranges::any_of(linear.terms, [&](const Linear::Term& t) {
      return !same(t.value, term) && floor_mod(t.factor, step) == 0 &&
             (t.value.op() == Op::FLOORDIV || t.value.op() == Op::FLOORMOD ||
              is_term_of(t.value, term.src(0)));
    });
  };
  for (const auto& [term, factor] : linear.terms) {
    if (by_constant(term, Op::FLOORDIV)) {
      // x // k is q // c with q = x // (k / c): for the c that the factor has in common with k, or a c of a
      // remainder
      const wide k = term.src(1).int_value();
      SmallVector<wide, 8> divisors{gcd(factor, k)};
      for (const auto& [other, f] : linear.terms)
        if (by_constant(other, Op::FLOORMOD))
          if (const wide c = gcd(divisors[0], other.src(1).int_value());
              std::ranges::find(divisors, c) == divisors.end())
            divisors.push_back(c);
      for (const wide c : divisors) {
        if (c == 1 || !partner(term, factor / c)) continue;
        const UOp q = floor_divided(term.src(0), k / c);
        if (auto shorter = replaced(sum, term, factor, factor / c, q, floor_remainder(q, c), 1))
          return shorter;
      }
    } else if (by_constant(term, Op::FLOORMOD)) {
      const wide c = term.src(1).int_value(), step = saturating_mul(factor, c);
      if (!partner(term, step)) continue;
      const UOp& x = term.src(0);
      if (auto shorter = replaced(sum, term, factor, factor, x, floor_divided(x, c), c)) return shorter;
      for (const Linear::Term& other : linear.terms)
        if ((other.factor == step || other.factor == -step) && by_constant(other.value, Op::FLOORMOD))
          if (auto joined = join_digits(sum, {term, factor}, other)) return joined;
    }
  }
  return std::nullopt;
}

// A quick look at what most sums are: terms in order, each a value or a value times a number, the constant
// last. Sums of divisions are looked at more closely: they may join.
bool is_plainly_ordered(const UOp& u) {
  auto is_atom = [](const UOp& x) { return x.op() != Op::ADD && x.op() != Op::MUL && !x.is_const(); };
  const UOp* rest = &u;
  if (u.op() == Op::ADD && u.src(1).is_int_const()) {
    if (u.src(1).equals(0)) return false;
    rest = &u.src(0);
  }
  bool divides = false;
  for (const UOp* right = nullptr; rest;) {
    const bool last = rest->op() != Op::ADD;
    const UOp* value = last ? rest : &rest->src(1);
    if (value->op() == Op::MUL && value->src(1).is_int_const()) {
      if (value->src(1).equals(0) || value->src(1).equals(1)) return false;
      value = &value->src(0);
    }
    if (value->op() == Op::MUL ? !is_atom(value->src(0)) || !is_atom(value->src(1)) : !is_atom(*value))
      return false;
    divides |= value->op() == Op::FLOORDIV || value->op() == Op::FLOORMOD;
    if (right && (divides || compare(*value, *right) >= 0)) return false;
    right = value;
    rest = last ? nullptr : &rest->src(0);
  }
  return true;
}

UOp order_sum(const UOp& u) {
  if (is_plainly_ordered(u)) return {};
  auto sum = linear_of(u);
  if (!sum) return {};
  while (auto shorter = join_remainders(*sum)) sum = std::move(shorter);
  return is_written_as(u, *sum) ? UOp() : to_uop(*sum);
}

// MUL of integers that is no linear form, MAX, MIN, AND, OR, XOR: a flat list of operands in order.
UOp order_operands(const UOp& u) {
  const Op op = u.op();
  if (u.src(0).op() != op && u.src(1).op() != op && before(u.src(0), u.src(1)) && !u.src(0).is_const())
    return {};
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
  std::ranges::sort(operands, before);
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
    operands.erase(std::ranges::unique(operands).begin(), operands.end());
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
      {op({Op::ADD, Op::MUL}).of(types::ints).as("x"), order_sum,
       "a sum -> its terms in order, like terms added"},
      {op({Op::MUL, Op::AND, Op::OR, Op::XOR}).of(types::exact).as("x"), order_operands,
       "a chain of one op -> its operands in order"},
      {op({Op::MAX, Op::MIN}).of(types::values).as("x"), order_operands,
       "a chain of min or max -> its operands in order"},
      {op({Op::ADD, Op::MUL}).of(types::floats).as("x"), swap_operands, "x op y -> y op x"},
      {op({Op::CMPEQ, Op::CMPNE}, {floats(""), floats("")}).as("x"), swap_operands, "x == y -> y == x"},
  };
};

}  // namespace quern
