// Division and remainder. The functions work on sums (see linear.h) of sizes, or of fixed-width integers
// whose bounds show that nothing wraps: only then is the sum that is written the number that is meant.
#include "quern/ir/symbolic/division.h"

#include <algorithm>
#include <functional>

#include "quern/ir/node/saturate.h"
#include "quern/ir/symbolic/linear.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

UOp number(DType dtype, wide v) { return UOp::constant(dtype, wrap(dtype, v)); }
UOp plain_div(const UOp& x, wide c) { return UOp::make(Op::FLOORDIV, x.dtype(), {x, number(x.dtype(), c)}); }
UOp plain_mod(const UOp& x, wide c) { return UOp::make(Op::FLOORMOD, x.dtype(), {x, number(x.dtype(), c)}); }

// The one quotient that every value in the interval has, if there is only one.
std::optional<wide> single_quotient(Bounds b, wide c) {
  const wide q = floor_div(b.min, c);
  return q == floor_div(b.max, c) ? std::optional(q) : std::nullopt;
}

// sum = d * multiples + rest with 0 <= rest < d, for a divisor d of c. Then rest is lost in sum // c, and
// untouched by sum % c. The greatest such d that is less than c.
struct Window {
  wide d;
  Linear multiples, rest;
};
std::optional<Window> find_window(const Linear& sum, wide c) {
  std::vector<wide> divisors;
  for (const auto& term : sum.terms)
    if (const wide d = gcd(term.factor, c); d > 1 && d < c) divisors.push_back(d);
  std::ranges::sort(divisors, std::greater<>());
  divisors.erase(std::ranges::unique(divisors).begin(), divisors.end());
  for (wide d : divisors) {
    auto [multiples, rest] = split_multiples(sum, d);
    const auto q = single_quotient(rest.interval(), d);
    if (!q) continue;
    multiples.constant = *q;
    rest.constant -= *q * d;
    return Window{d, std::move(multiples), std::move(rest)};
  }
  return std::nullopt;
}

UOp divide(Linear sum, wide c);
UOp remainder(Linear sum, wide c);

UOp plus(const Linear& a, const UOp& b, wide factor = 1) {
  const auto l = linear_of(b);
  const auto r = l ? add(a, *l, factor) : std::nullopt;
  if (r) return to_uop(*r);
  const UOp scaled_b = factor == 1 ? b : UOp::make(Op::MUL, b.dtype(), {b, number(b.dtype(), factor)});
  return UOp::make(Op::ADD, b.dtype(), {to_uop(a), scaled_b});
}

// Factors of c or more are split when the rest then has a single quotient: (5 * x) // 4 is x + x // 4.
std::optional<std::pair<Linear, Linear>> split_factors(const Linear& sum, wide c) {
  for (const bool nearest : {false, true}) {
    auto quotient = [&](wide factor) {
      const wide q = floor_div(factor, c);
      return nearest && (factor - q * c) * 2 > c ? q + 1 : q;
    };
    if (std::ranges::all_of(sum.terms, [&](const Linear::Term& t) { return quotient(t.factor) == 0; }))
      continue;
    Linear whole = constant_sum(sum.dtype, 0), rest = constant_sum(sum.dtype, sum.constant);
    for (const auto& [value, factor] : sum.terms) {
      const wide q = quotient(factor);
      if (q != 0) whole.terms.push_back({value, q});
      if (factor != q * c) rest.terms.push_back({value, factor - q * c});
    }
    if (const auto q = single_quotient(rest.interval(), c)) {
      whole.constant = *q;
      rest.constant -= *q * c;
      if (whole.exact()) return std::pair(std::move(whole), std::move(rest));
    }
  }
  return std::nullopt;
}

// -1 - sum, when the first factor of the sum is negative: x // c is -1 - (-1 - x) // c.
std::optional<Linear> complement(const Linear& sum) {
  if (sum.terms.empty() || sum.terms[0].factor >= 0) return std::nullopt;
  auto opposite = add(constant_sum(sum.dtype, -1), sum, -1);
  return opposite && opposite->exact() ? opposite : std::nullopt;
}

// (x // d + a) // c is (x + a * d) // (c * d), if x // d is the only quotient.
std::optional<std::pair<Linear, wide>> join_quotient(const Linear& sum, wide c) {
  const Linear::Term* quotient = nullptr;
  for (const auto& term : sum.terms) {
    if (!term.value.ops_below().contains(Op::FLOORDIV)) continue;
    if (quotient != nullptr || term.factor != 1 || term.value.op() != Op::FLOORDIV) return std::nullopt;
    quotient = &term;
  }
  if (quotient == nullptr || !quotient->value.src(1).is_int_const()) return std::nullopt;
  const wide d = quotient->value.src(1).int_value();
  const auto x = linear_of(quotient->value.src(0));
  if (d <= 0 || !fits(sum.dtype, saturating_mul(c, d)) || !x || !x->exact()) return std::nullopt;
  auto joined = add(sum, term_of(quotient->value), -1);
  if (joined) joined = add(*x, *joined, d);
  if (!joined || !joined->fits_dtype()) return std::nullopt;
  return std::pair(std::move(*joined), c * d);
}

UOp divide(Linear sum, wide c) {
  const DType dtype = sum.dtype;
  if (c == 1) return to_uop(sum);
  if (const auto q = single_quotient(sum.interval(), c)) return number(dtype, *q);

  // (c * a + r) // c is a + r // c
  auto [whole, rest] = split_multiples(sum, c);
  whole.constant = floor_div(rest.constant, c);
  rest.constant -= whole.constant * c;
  if ((!whole.terms.empty() || whole.constant != 0) && whole.exact() && rest.exact())
    return plus(whole, divide(std::move(rest), c));

  // (g * a + k) // (g * c) is (a + k // g) // c
  if (const wide g = gcd_of_factors(sum, c); g > 1) {
    Linear smaller = split_multiples(sum, g).first;
    smaller.constant = floor_div(sum.constant, g);
    return divide(std::move(smaller), c / g);
  }
  if (auto window = find_window(sum, c)) return divide(std::move(window->multiples), c / window->d);
  if (auto parts = split_factors(sum, c)) return to_uop(parts->first);

  if (auto joined = join_quotient(sum, c)) return divide(std::move(joined->first), joined->second);
  // (x % (c * n)) // c is (x // c) % n
  const UOp& first = sum.terms[0].value;
  if (sum.terms.size() == 1 && sum.terms[0].factor == 1 && sum.constant == 0 && first.op() == Op::FLOORMOD &&
      first.src(1).is_int_const() && first.src(1).int_value() > 0 && first.src(1).int_value() % c == 0)
    return floor_remainder(floor_divided(first.src(0), c), first.src(1).int_value() / c);
  if (const auto opposite = complement(sum)) return plus(constant_sum(dtype, -1), divide(*opposite, c), -1);
  return plain_div(to_uop(sum), c);
}

// Factors that differ by a multiple of c mean the same: the one nearest to 0 is written. If that makes the
// first one negative the sign comes out, x % c = c - 1 - (-1 - x) % c; in (x + 1) % 2 = 1 - x % 2 it is seen
// in the constant.
UOp centred_mod(const Linear& sum, wide c) {
  Linear centred = constant_sum(sum.dtype, floor_mod(sum.constant, c));
  for (const auto& [value, factor] : sum.terms) {
    const wide f = floor_mod(factor, c);
    centred.terms.push_back({value, 2 * f > c ? f - c : f});
  }
  const auto sign =
      std::ranges::find_if(centred.terms, [&](const Linear::Term& t) { return 2 * t.factor != c; });
  const bool negative = sign == centred.terms.end() ? centred.constant == 1 : sign->factor < 0;
  if (negative) {
    for (auto& term : centred.terms)
      if (2 * term.factor != c) term.factor = -term.factor;
    centred.constant = c - 1 - centred.constant;
  }
  if (!sum.dtype.is_signed() || !centred.exact()) return plain_mod(to_uop(sum), c);
  const UOp mod = plain_mod(to_uop(centred), c);
  return negative ? plus(constant_sum(sum.dtype, c - 1), mod, -1) : mod;
}

UOp remainder(Linear sum, wide c) {
  const DType dtype = sum.dtype;
  if (c == 1) return number(dtype, 0);
  if (const auto q = single_quotient(sum.interval(), c)) {
    sum.constant -= *q * c;
    return to_uop(sum);
  }
  // Multiples of c go: whole terms, and parts of factors. An inner remainder is not needed
  // if its divisor, with the factor, is a multiple of c.
  Linear less = constant_sum(dtype, floor_mod(sum.constant, c));
  bool changed = less.constant != sum.constant, merged = false;
  for (const auto& [value, factor] : sum.terms) {
    const wide small = factor < 0 && factor > -c ? factor : floor_mod(factor, c);
    changed |= small != factor;
    if (small == 0) continue;
    if (value.op() == Op::FLOORMOD && value.src(1).is_int_const() && value.src(1).int_value() > 0 &&
        saturating_mul(small, value.src(1).int_value()) % c == 0) {
      const auto inside = linear_of(value.src(0));
      const auto sum_with = inside && inside->exact() ? add(less, *inside, small) : std::nullopt;
      if (sum_with && sum_with->exact()) {
        less = *sum_with;
        changed = merged = true;
        continue;
      }
    }
    if (!merged) {
      less.terms.push_back({value, small});
      continue;
    }
    const auto next = add(less, term_of(value), small);
    if (!next) return plain_mod(to_uop(sum), c);
    less = *next;
  }
  if (changed && less.exact()) return remainder(std::move(less), c);

  if (auto parts = split_factors(sum, c)) return to_uop(parts->second);
  // (g * a + k) % (g * c) is g * ((a + k // g) % c) + k % g
  if (const wide g = gcd_of_factors(sum, c); g > 1) {
    Linear smaller = split_multiples(sum, g).first;
    smaller.constant = floor_div(sum.constant, g);
    return plus(constant_sum(dtype, floor_mod(sum.constant, g)), remainder(std::move(smaller), c / g), g);
  }
  if (auto window = find_window(sum, c)) {
    const wide d = window->d;
    return plus(window->rest, remainder(std::move(window->multiples), c / d), d);
  }
  return centred_mod(sum, c);
}

UOp simplify_div(const UOp& x, const UOp& c) {
  if (c.int_value() <= 0) return {};
  return floor_divided(x, c.int_value());
}
UOp simplify_mod(const UOp& x, const UOp& c) {
  if (c.int_value() <= 0) return {};
  return floor_remainder(x, c.int_value());
}

// The product without the factors of another, or none if one of them is missing.
UOp without_factors(const UOp& term, const UOps& others) {
  UOps factors = factors_of(term);
  for (const UOp& other : others) {
    const auto found = std::ranges::find(factors, other);
    if (found == factors.end()) return {};
    factors.erase(found);
  }
  if (factors.empty()) return term.const_like(1);
  UOp product = factors[0];
  for (size_t i = 1; i < factors.size(); i++)
    product = UOp::make(Op::MUL, product.dtype(), {product, factors[i]});
  return product;
}

// The one quotient of the sum by a symbolic divisor, if it is 0 or -1.
std::optional<wide> small_quotient(const Linear& sum, const Linear& divisor) {
  const Bounds b = sum.interval();
  const auto to_end = add(divisor, sum, -1), from_start = add(sum, divisor, 1);
  if (b.min >= 0 && to_end && to_end->interval().min > 0) return 0;
  if (b.max < 0 && from_start && from_start->interval().min >= 0) return -1;
  return std::nullopt;
}

// A symbolic divisor n that is never 0: (a * n + b) // n is a + b // n, (a * n + b) % n is b % n.
UOp divide_by_symbol(const UOp& u, const UOp& x, const UOp& n) {
  if (n.is_const() || (n.vmin() <= 0 && n.vmax() >= 0)) return {};
  const auto sum = linear_of(x), divisor = linear_of(n);
  if (!sum || !divisor || divisor->terms.empty()) return {};
  Linear whole = constant_sum(sum->dtype, 0), rest = constant_sum(sum->dtype, sum->constant);
  if (divisor->terms.size() == 1 && divisor->constant == 0) {
    const auto& [symbol, scale] = divisor->terms[0];
    const UOps symbols = factors_of(symbol);
    for (const auto& [value, factor] : sum->terms) {
      const UOp part = factor % scale == 0 ? without_factors(value, symbols) : UOp();
      if (part)
        whole.terms.push_back({part, factor / scale});
      else
        rest.terms.push_back({value, factor});
    }
  } else {
    rest = *sum;
  }
  UOp left;
  if (const auto q = n.vmin() > 0 ? small_quotient(rest, *divisor) : std::nullopt) {
    const auto moved = add(rest, *divisor, -*q);
    if (!moved) return {};
    left = u.op() == Op::FLOORMOD ? to_uop(*moved) : number(u.dtype(), *q);
  } else if (whole.terms.empty()) {
    return {};
  } else {
    left = UOp::make(u.op(), u.dtype(), {to_uop(rest), n});
  }
  if (u.op() == Op::FLOORMOD) return left;
  for (const auto& [value, factor] : whole.terms) left = left + value * UOp::constant(value.dtype(), factor);
  return left;
}

}  // namespace

UOp floor_divided(const UOp& x, wide c) {
  if (auto sum = linear_of(x); sum && sum->exact()) return divide(std::move(*sum), c);
  return plain_div(x, c);
}
UOp floor_remainder(const UOp& x, wide c) {
  if (auto sum = linear_of(x); sum && sum->exact()) return remainder(std::move(*sum), c);
  return plain_mod(x, c);
}

const Rules divisions = [] {
  const Pat i = ints("i"), n = ints("n"), c0 = int_const("c0"), c1 = int_const("c1");
  const Pat s = var("s", types::index), t = var("t", types::index), m = var("m", types::index);
  const Pat k = constant("k", types::signed_ints), k1 = constant("k1", types::signed_ints);
  const Pat z = var("z", types::signed_ints);
  return RuleList{
      {i / 0, 0},
      {i % 0, 0},
      {truncdiv(i, 0), 0},
      {truncmod(i, 0), 0},
      {i / 1, i},
      {i % 1, 0},
      {truncdiv(i, 1), i},
      {truncmod(i, 1), 0},
      {Pat(0) / i, 0},
      {Pat(0) % i, 0},
      {i % i, 0},
      {i / i, 1, vmin(i) > 0 || vmax(i) < 0},

      // Negative divisors.
      {z / -1, z * -1},
      {z % -1, 0},
      {z / k, (z * -1) / exact(k * -1), k < -1 && no_wrap(z * -1)},
      {z % k, ((z * -1) % exact(k * -1)) * -1, k < -1 && no_wrap(z * -1)},

      // By constants, of sums.
      {i / c0, simplify_div, "sum // c -> multiples of c taken out, by factors and bounds"},
      {i % c0, simplify_mod, "sum % c -> multiples of c dropped, by factors and bounds"},

      // By symbols.
      {op(Op::RANGE, {n}).as("loop") / n, 0},
      {op(Op::RANGE, {n}).as("loop") % n, op(Op::RANGE, {n}).as("loop")},
      {op(Op::SPECIAL, {n}).as("loop") / n, 0},
      {op(Op::SPECIAL, {n}).as("loop") % n, op(Op::SPECIAL, {n}).as("loop")},
      {i / n, 0, vmin(i) >= 0 && vmax(i) < vmin(n)},
      {i % n, i, vmin(i) >= 0 && vmax(i) < vmin(n)},
      {op(Op::FLOORDIV, {s, t}).as("u"), divide_by_symbol, "(a * n + b) // n -> a + b // n"},
      {op(Op::FLOORMOD, {s, t}).as("u"), divide_by_symbol, "(a * n + b) % n -> b % n"},
      {(s / t) / m, s / (t * m), vmin(t) > 0 && vmin(m) > 0},
      {(s % (t * m)) % t, s % t, vmin(t) > 0 && vmin(m) > 0},
      {(s % (t * m)) / t, (s / t) % m, vmin(t) > 0 && vmin(m) > 0},

      // The truncating forms are the floor forms where nothing is negative.
      {truncdiv(i, n), i / n, vmin(i) >= 0 && vmin(n) >= 0},
      {truncmod(i, n), i % n, vmin(i) >= 0 && vmin(n) >= 0},
      {truncdiv(z, -1), z * -1},
      {truncmod(z, -1), 0},
      {truncdiv(z, k), ((z * -1) / k) * -1, vmax(z) <= 0 && k > 0 && no_wrap(z * -1)},
      {truncmod(z, k), ((z * -1) % k) * -1, vmax(z) <= 0 && k > 0 && no_wrap(z * -1)},
      {truncdiv(z, k), truncdiv(z, exact(k * -1)) * -1, k < -1},
      {truncmod(z, k), truncmod(z, exact(k * -1)), k < -1},
      {truncdiv(truncdiv(z, k), k1), truncdiv(z, exact(k * k1)), k > 0 && k1 > 0},
      {truncdiv(z * k, k1), z * exact(k / k1), k1 > 0 && k % k1 == 0 && no_wrap(z * k)},
  };
};

}  // namespace quern
