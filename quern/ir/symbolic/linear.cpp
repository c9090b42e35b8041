#include "quern/ir/symbolic/linear.h"

#include <algorithm>

#include "quern/ir/node/saturate.h"

namespace quern {
namespace {

constexpr size_t kMostTerms = 64;

// A factor or constant as the dtype has it: wrapped, except that index numbers must fit.
bool settle(DType dtype, wide& v) {
  if (dtype.is_index()) return fits(dtype, v);
  v = wrap(dtype, v).integer(dtype);
  return true;
}

// Of a factor and a value of the dtype. Index numbers stop at the limits, and are refused when they settle;
// the others may lose what is beyond 64 bits, as two factors of uint64 do.
wide times(DType dtype, wide a, wide b) {
  if (dtype.is_index()) return saturating_mul(a, b);
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Sorts, adds up equal terms, drops zeros.
bool normalise(Linear& l) {
  auto& t = l.terms;
  auto in_order = [](const Linear::Term& a, const Linear::Term& b) { return before(a.value, b.value); };
  if (!std::ranges::is_sorted(t, in_order)) std::ranges::sort(t, in_order);
  size_t kept = 0;
  for (size_t i = 0; i < t.size();) {
    wide factor = 0;
    size_t j = i;
    for (; j < t.size() && same(t[j].value, t[i].value); j++) factor = saturating_add(factor, t[j].factor);
    if (!settle(l.dtype, factor)) return false;
    if (factor != 0) {
      if (kept != i) t[kept].value = std::move(t[i].value);
      t[kept++].factor = factor;
    }
    i = j;
  }
  t.shrink(kept);
  return settle(l.dtype, l.constant);
}

UOp product(const UOp& a, const UOp& b) {
  UOps factors = factors_of(a), more = factors_of(b);
  factors.insert(factors.end(), more.begin(), more.end());
  std::ranges::sort(factors, before);
  UOp p = factors[0];
  for (size_t i = 1; i < factors.size(); i++) p = UOp::make(Op::MUL, p.dtype(), {p, factors[i]});
  return p;
}

std::optional<Linear> multiply(const Linear& a, const Linear& b) {
  Linear r{.dtype = a.dtype, .terms = {}, .constant = saturating_mul(a.constant, b.constant)};
  for (const auto& [x, f] : a.terms) {
    if (b.constant != 0) r.terms.push_back({x, saturating_mul(f, b.constant)});
    for (const auto& [y, g] : b.terms) r.terms.push_back({product(x, y), saturating_mul(f, g)});
  }
  if (a.constant != 0)
    for (const auto& [y, g] : b.terms) r.terms.push_back({y, saturating_mul(g, a.constant)});
  if (!normalise(r)) return std::nullopt;
  return r;
}

Bounds plain_interval(const Linear& l) {
  Bounds r{l.constant, l.constant};
  for (const auto& [value, factor] : l.terms) {
    const Bounds b = value.bounds();
    const wide x = saturating_mul(b.min, factor), y = saturating_mul(b.max, factor);
    r = {saturating_add(r.min, std::min(x, y)), saturating_add(r.max, std::max(x, y))};
  }
  return r;
}

// The end of a loop, or the divisor of a remainder: 0 <= u < end.
const UOp* end_of(const UOp& u) {
  if (u.op() == Op::RANGE || u.op() == Op::SPECIAL) return &u.src(0);
  if (u.op() == Op::FLOORMOD && u.src(1).vmin() > 0) return &u.src(1);
  return nullptr;
}

// The sum at the end of its loops, where it is greatest (or least, if that is asked for): n * r0[4] is at
// most 3 * n.
std::optional<Linear> extreme(const Linear& l, bool greatest) {
  Linear sum{.dtype = l.dtype, .terms = {}, .constant = l.constant};
  for (const auto& term : l.terms) {
    Linear most{.dtype = l.dtype, .terms = {}, .constant = 1};
    bool bounded = false, negative = false;
    for (const UOp& f : factors_of(term.value)) {
      const UOp* end = end_of(f);
      bounded |= end != nullptr;
      negative |= f.vmin() < 0;
      auto value = linear_of(end ? *end : f);
      if (!value) return std::nullopt;
      if (end) value->constant--;
      const auto next = multiply(most, *value);
      if (!next) return std::nullopt;
      most = *next;
    }
    if (!bounded || negative)
      most = term_of(term.value);
    else if ((term.factor > 0) != greatest)
      continue;  // 0
    const auto next = add(sum, most, term.factor);
    if (!next) return std::nullopt;
    sum = *next;
  }
  return sum;
}

// Only of sizes: a product of others may wrap.
bool is_symbolic(const UOp& term) {
  if (!term.dtype().is_index()) return false;
  if (term.op() == Op::MUL) return true;
  const UOp* end = end_of(term);
  return end != nullptr && !end->is_const();
}

}  // namespace

UOps factors_of(const UOp& term) {
  UOps factors, stack{term};
  while (!stack.empty()) {
    UOp u = std::move(stack.back());
    stack.pop_back();
    if (u.op() == Op::MUL) {
      stack.push_back(u.src(1));
      stack.push_back(u.src(0));
    } else {
      factors.push_back(std::move(u));
    }
  }
  return factors;
}

Bounds Linear::interval() const {
  Bounds r = plain_interval(*this);
  if (std::ranges::none_of(terms, [](const Term& t) { return is_symbolic(t.value); })) return r;
  if (const auto least = extreme(*this, false)) r.min = std::max(r.min, plain_interval(*least).min);
  if (const auto most = extreme(*this, true)) r.max = std::min(r.max, plain_interval(*most).max);
  return r;
}

bool Linear::exact() const { return dtype.is_index() || fits_dtype(); }

bool Linear::fits_dtype() const {
  const Bounds b = interval();
  return fits(dtype, b.min) && fits(dtype, b.max);
}

std::optional<Linear> linear_of(const UOp& u) {
  Linear r{.dtype = u.dtype(), .terms = {}, .constant = 0};
  if (u.is_int_const()) {
    r.constant = u.int_value();
    return r;
  }
  if (u.op() != Op::ADD && u.op() != Op::MUL) {
    r.terms.push_back({u, 1});
    return r;
  }
  struct Part {
    const UOp* value;
    wide factor;
  };
  SmallVector<Part, 16> stack{{&u, 1}};
  while (!stack.empty()) {
    auto [x, factor] = stack.back();
    stack.shrink(stack.size() - 1);
    if (x->is_int_const()) {
      r.constant = saturating_add(r.constant, times(r.dtype, x->int_value(), factor));
      if (!settle(r.dtype, r.constant)) return std::nullopt;
    } else if (x->op() == Op::ADD) {
      stack.push_back({&x->src(1), factor});
      stack.push_back({&x->src(0), factor});
    } else if (x->op() == Op::MUL && x->src(1).is_int_const()) {
      wide scale = times(r.dtype, factor, x->src(1).int_value());
      if (!settle(r.dtype, scale)) return std::nullopt;
      stack.push_back({&x->src(0), scale});
    } else if (x->op() == Op::MUL && r.dtype.is_index() &&
               (x->src(0).op() == Op::ADD || x->src(1).op() == Op::ADD || x->src(0).op() == Op::MUL ||
                x->src(1).op() == Op::MUL)) {
      // Products of sums are multiplied out: strides may be symbolic. Short ones only.
      const auto a = linear_of(x->src(0)), b = linear_of(x->src(1));
      if (!a || !b) return std::nullopt;
      const size_t size = (a->terms.size() + 1) * (b->terms.size() + 1);
      const auto p = size <= 16 ? multiply(*a, *b) : std::nullopt;
      if (!p) {
        r.terms.push_back({*x, factor});
      } else {
        for (const auto& [value, f] : p->terms) r.terms.push_back({value, saturating_mul(f, factor)});
        r.constant = saturating_add(r.constant, saturating_mul(p->constant, factor));
      }
    } else {
      r.terms.push_back({*x, factor});
    }
    if (r.terms.size() + stack.size() > kMostTerms) return std::nullopt;
  }
  if (!normalise(r)) return std::nullopt;
  return r;
}

std::optional<Linear> total(std::initializer_list<Multiple> parts) {
  Linear r = constant_sum(parts.begin()->sum.dtype, 0);
  for (const auto& [sum, scale] : parts) {
    for (const auto& [value, factor] : sum.terms) r.terms.push_back({value, times(r.dtype, factor, scale)});
    r.constant = saturating_add(r.constant, times(r.dtype, sum.constant, scale));
  }
  if (!normalise(r)) return std::nullopt;
  return r;
}

std::optional<Linear> add(const Linear& a, const Linear& b, wide factor_of_b) {
  return total({{a, 1}, {b, factor_of_b}});
}

std::optional<Linear> scaled(const Linear& a, wide factor) { return total({{a, factor}}); }

UOp to_uop(const Linear& l) {
  UOp sum;
  for (const auto& [value, factor] : l.terms) {
    UOp term = factor == 1
                   ? value
                   : UOp::make(Op::MUL, l.dtype, {value, UOp::constant(l.dtype, wrap(l.dtype, factor))});
    sum = sum ? UOp::make(Op::ADD, l.dtype, {sum, term}) : std::move(term);
  }
  if (l.constant == 0 && sum) return sum;
  UOp constant = UOp::constant(l.dtype, wrap(l.dtype, l.constant));
  return sum ? UOp::make(Op::ADD, l.dtype, {sum, constant}) : constant;
}

bool is_written_as(const UOp& u, const Linear& l) {
  auto is_number = [&](const UOp& x, wide v) { return x.is_int_const() && x.value() == wrap(l.dtype, v); };
  if (l.terms.empty()) return is_number(u, l.constant);
  const UOp* rest = &u;
  if (l.constant != 0) {
    if (u.op() != Op::ADD || !is_number(u.src(1), l.constant)) return false;
    rest = &u.src(0);
  }
  for (size_t i = l.terms.size(); i-- > 0;) {
    const auto& [value, factor] = l.terms[i];
    if (i > 0 && rest->op() != Op::ADD) return false;
    const UOp& term = i > 0 ? rest->src(1) : *rest;
    if (factor == 1 ? !same(term, value)
                    : term.op() != Op::MUL || !same(term.src(0), value) || !is_number(term.src(1), factor))
      return false;
    if (i > 0) rest = &rest->src(0);
  }
  return true;
}

std::pair<Linear, Linear> split_multiples(const Linear& l, wide d) {
  Linear multiples{.dtype = l.dtype, .terms = {}, .constant = 0},
      rest{.dtype = l.dtype, .terms = {}, .constant = l.constant};
  for (const auto& [value, factor] : l.terms)
    if (factor % d == 0)
      multiples.terms.push_back({value, factor / d});
    else
      rest.terms.push_back({value, factor});
  return {std::move(multiples), std::move(rest)};
}

wide gcd(wide a, wide b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) a = std::exchange(b, floor_mod(a, b));
  return a;
}

wide gcd_of_factors(const Linear& l, wide start) {
  wide g = start;
  for (const auto& term : l.terms) g = gcd(g, term.factor);
  return g;
}

}  // namespace quern
