#include "quern/schedule/ranges/collapse.h"

#include <algorithm>
#include <optional>

#include "quern/ir/node/reduce.h"
#include "quern/ir/symbolic/linear.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

bool depends_on(const UOp& u, const UOp& range) {
  return std::ranges::binary_search(u.ranges(), range, before);
}

bool is_zero(const UOp& u) {
  if (!u.is_const() || u.value().is_invalid()) return false;
  if (u.dtype().is_float()) return u.value() == Const::of_float(0.0);
  return u.equals(0);
}

Sources ranges_of(const UOp& reduce) { return Reduction(reduce).ranges; }
bool is_plain(const UOp& reduce) {
  return reduce.arg().reduce().op != Op::NOOP && !ranges_of(reduce).empty();
}

UOp over(const UOp& reduce, const UOp& value, const UOps& ranges) {
  if (ranges.empty()) return value;
  UOps sources{value};
  sources.insert(sources.end(), ranges.begin(), ranges.end());
  return reduce.with_src(sources);
}
UOps without(Sources ranges, const UOp& range) {
  UOps left;
  for (const UOp& r : ranges)
    if (!same(r, range)) left.push_back(r);
  return left;
}

// A sum starts from 0.0, so it is never -0.0.
UOp as_sum(const UOp& x) { return x.dtype().is_float() ? x + 0.0 : x; }

// By squaring: x, x^2, x^4, ...
UOp power(UOp x, wide n) {
  UOp result;
  for (; n > 0; n /= 2, x = n > 0 ? x * x : x)
    if (n % 2 != 0) result = result ? result * x : x;
  return result ? result : x.const_like(1);
}

// n equal values: n times the value, its power, the value itself for max, min, and, or.
UOp drop_unused_ranges(const UOp& reduce) {
  if (!is_plain(reduce)) return {};
  const Op op = reduce.arg().reduce().op;
  const UOp& x = Reduction(reduce).value();
  UOps used;
  UOp times;
  for (const UOp& r : ranges_of(reduce)) {
    if (r.op() == Op::RANGE && !depends_on(x, r))
      times = times ? times * r.src(0) : r.src(0);
    else if (r.op() == Op::RANGE)
      used.push_back(r);
  }
  if (!times) return {};
  UOp rest = over(reduce, x, used);
  if (x.dtype().is_bool() && op != Op::XOR) return rest;
  times = times.simplify();
  if (op == Op::ADD) return as_sum(rest * times.cast(x.dtype()));
  if (op != Op::MUL && op != Op::XOR) return rest;
  if (!times.is_const()) return {};
  const wide n = times.vmax();
  if (op == Op::MUL) return power(rest, n);
  return n % 2 != 0 ? rest : x.const_like(0);
}

// The conditions that a value must meet not to be 0, and the value.
struct Selected {
  UOps conditions;
  UOp value;
};
void add_conditions(const UOp& condition, UOps& into) {
  UOps stack{condition};
  while (!stack.empty()) {
    const UOp c = stack.back();
    stack.pop_back();
    if (c.op() == Op::AND)
      stack.insert(stack.end(), {c.src(1), c.src(0)});
    else
      into.push_back(c);
  }
}
// A condition as the number 0 or 1.
const UOp* as_condition(const UOp& x) {
  const UOp* u = &x;
  while (u->op() == Op::CAST && !u->dtype().is_bool()) u = &u->src(0);
  return u->dtype().is_bool() && u != &x ? u : nullptr;
}
// `products`: a condition times a value counts, too. That loses what 0 times an infinity or NaN would be.
std::optional<Selected> selected(const UOp& x, bool products = false) {
  if (x.op() == Op::CAST) {
    auto inside = selected(x.src(0), products);
    if (inside) inside->value = inside->value.cast(x.dtype());
    return inside;
  }
  if (x.op() == Op::MUL && products)
    for (size_t i = 0; i < 2; i++)
      if (const UOp* condition = as_condition(x.src(i))) {
        Selected s{.conditions = {}, .value = x.src(1 - i)};
        add_conditions(*condition, s.conditions);
        if (auto inside = selected(s.value, products)) {
          s.conditions.insert(s.conditions.end(), inside->conditions.begin(), inside->conditions.end());
          s.value = inside->value;
        }
        return s;
      }
  if (x.op() != Op::WHERE) return std::nullopt;
  Selected s;
  if (is_zero(x.src(2))) {
    add_conditions(x.src(0), s.conditions);
    s.value = x.src(1);
  } else if (is_zero(x.src(1))) {
    add_conditions((~x.src(0)).simplify(), s.conditions);
    s.value = x.src(2);
  } else {
    return std::nullopt;
  }
  if (auto inside = selected(s.value, products)) {
    s.conditions.insert(s.conditions.end(), inside->conditions.begin(), inside->conditions.end());
    s.value = inside->value;
  }
  return s;
}
UOp all_of(const UOps& conditions) {
  UOp c = UOp::boolean(true);
  for (const UOp& x : conditions) c = c & x;
  return c.simplify();
}
UOp select(const UOps& conditions, const UOp& value) {
  return conditions.empty() ? value : where(all_of(conditions), value, value.const_like(0));
}

bool is_not(const UOp& u) { return u.op() == Op::XOR && u.dtype().is_bool() && u.src(1).equals(1); }
const UOp& without_cast(const UOp& u) {
  return u.op() == Op::CAST && u.src(0).dtype().is_int() ? u.src(0) : u;
}
UOp as_index(const UOp& u) { return u.cast(dtypes::index).simplify(); }

// A sum in which casts are seen through: the cast of a sum is the sum of the casts where neither wraps, or
// where the cast only drops high bits.
std::optional<Linear> through_casts(const UOp& u, const UOp& range) {
  auto sum = linear_of(u);
  while (sum) {
    const auto is_cast_sum = [&](const Linear::Term& t) {
      return t.value.op() == Op::CAST && t.value.src(0).dtype().is_int() && depends_on(t.value, range) &&
             !same(t.value.src(0), range);
    };
    const auto found = std::ranges::find_if(sum->terms, is_cast_sum);
    if (found == sum->terms.end()) return sum;
    const UOp inner = found->value.src(0);
    const wide factor = found->factor;
    auto inside = linear_of(inner);
    const bool drops = !sum->dtype.is_index() && sum->dtype.bits() <= inner.dtype().bits();
    if (!inside || (!drops && !inside->exact())) return std::nullopt;
    if (inside->terms.size() == 1 && same(inside->terms[0].value, inner)) return sum;
    inside->dtype = sum->dtype;
    for (auto& term : inside->terms) term.value = term.value.cast(sum->dtype);
    Linear without = *sum;
    without.terms = {};
    for (const auto& term : sum->terms)
      if (!same(term.value, found->value)) without.terms.push_back(term);
    sum = add(without, *inside, factor);
  }
  return sum;
}

// left - right as factor * range + rest. Where nothing wraps, in mathematical integers; else modulo the width
// of their dtype, which is enough to compare for equality.
struct Compared {
  wide factor = 0;
  UOp rest;
  bool exact = true;
};
std::optional<Compared> in_terms_of(const UOp& left, const UOp& right, const UOp& range, bool modulo) {
  const auto a = through_casts(left, range), b = through_casts(right, range);
  if (!a || !b) return std::nullopt;
  Compared c;
  c.exact = a->exact() && b->exact();
  if (!c.exact && !modulo) return std::nullopt;
  const DType dtype = c.exact ? dtypes::index : left.dtype();
  auto number = [&](wide n) {
    return c.exact ? UOp::constant(dtype, n) : UOp::constant(dtype, wrap(dtype, n));
  };
  UOp rest = number(0);
  auto add = [&](const Linear& l, wide sign) {
    for (const auto& [value, factor] : l.terms) {
      if (same(without_cast(value), range))
        c.factor += sign * factor;
      else if (depends_on(value, range))
        return false;
      else
        rest = rest + value.cast(dtype) * number(sign * factor);
    }
    rest = rest + number(sign * l.constant);
    return true;
  };
  if (!add(*a, 1) || !add(*b, -1)) return std::nullopt;
  c.rest = rest.simplify();
  return c;
}

// Where a condition `factor * range == e` lets the sum have its one element: the place, and whether there is
// one.
struct PickedElement {
  UOp at, exists;
};
std::optional<PickedElement> picked(const UOp& condition, const UOp& range) {
  const bool negated = is_not(condition);
  const UOp& c = negated ? condition.src(0) : condition;
  if (c.op() != (negated ? Op::CMPNE : Op::CMPEQ) || !c.src(0).dtype().is_int()) return std::nullopt;
  const auto compared = in_terms_of(c.src(0), c.src(1), range, true);
  if (!compared || compared->factor == 0) return std::nullopt;
  const UOp opposite =
      compared->rest * UOp::constant(compared->rest.dtype(), wrap(compared->rest.dtype(), -1));
  const UOp e = compared->factor > 0 ? opposite : compared->rest;
  const wide factor = compared->factor > 0 ? compared->factor : -compared->factor;
  if (factor == 1) {
    // Two places must not be one value of a narrow dtype.
    if (!compared->exact && !fits(c.src(0).dtype(), range.vmax())) return std::nullopt;
    return PickedElement{as_index(e), UOp::boolean(true)};
  }
  if (!compared->exact || !fits(dtypes::index, factor)) return std::nullopt;
  const UOp divisor = UOp::constant(dtypes::index, factor);
  return PickedElement{(e / divisor).simplify(), eq(e % divisor, UOp::index(0)).simplify()};
}

UOp pick_element(const UOp& reduce) {
  if (!is_plain(reduce) || reduce.arg().reduce().op != Op::ADD) return {};
  const auto s = selected(Reduction(reduce).value(), true);
  if (!s) return {};
  for (const UOp& range : ranges_of(reduce)) {
    if (range.op() != Op::RANGE) continue;
    for (size_t i = 0; i < s->conditions.size(); i++) {
      const auto place = picked(s->conditions[i], range);
      if (!place) continue;
      const UOp inside = (place->exists & (place->at >= 0) & (place->at < range.src(0))).simplify();
      const UOp at = where(inside, place->at, UOp::invalid()).simplify();
      UOps conditions{inside};
      for (size_t k = 0; k < s->conditions.size(); k++)
        if (k != i) conditions.push_back(s->conditions[k].substitute_open({{range, at}}));
      return over(reduce, select(conditions, as_sum(s->value.substitute_open({{range, at}}))),
                  without(ranges_of(reduce), range));
    }
  }
  return {};
}

// Conditions that bound the range from below and above, and a value that does not change: a number of times.
UOp count_elements(const UOp& reduce) {
  if (!is_plain(reduce) || reduce.arg().reduce().op != Op::ADD) return {};
  const auto s = selected(Reduction(reduce).value());
  if (!s || s->value.dtype().is_bool()) return {};
  for (const UOp& range : ranges_of(reduce)) {
    if (range.op() != Op::RANGE || depends_on(s->value, range)) continue;
    UOp from = UOp::index(0), to = range.src(0);
    UOps others;
    bool bounded = true;
    for (const UOp& condition : s->conditions) {
      if (!depends_on(condition, range)) {
        others.push_back(condition);
        continue;
      }
      const bool negated = is_not(condition);
      const UOp& c = negated ? condition.src(0) : condition;
      const bool less = c.op() == Op::CMPLT && c.src(0).dtype().is_int();
      const auto compared = less ? in_terms_of(c.src(0), c.src(1), range, false) : std::nullopt;
      if (!compared || (compared->factor != 1 && compared->factor != -1)) {
        bounded = false;
        break;
      }
      // range + rest < 0, or -range + rest < 0; the opposite if negated
      const UOp rest = compared->rest;
      if (compared->factor == 1 && !negated)
        to = min(to, rest * -1);
      else if (compared->factor == 1)
        from = max(from, rest * -1);
      else if (!negated)
        from = max(from, rest + 1);
      else
        to = min(to, rest + 1);
    }
    if (!bounded) continue;
    const UOp count = max(UOp::index(0), to - from).simplify().cast(s->value.dtype());
    return over(reduce, select(others, as_sum(s->value * count)), without(ranges_of(reduce), range));
  }
  return {};
}

// What does not depend on the ranges is asked once.
UOp pull_out_conditions(const UOp& reduce) {
  if (!is_plain(reduce) || reduce.arg().reduce().op != Op::ADD) return {};
  const auto s = selected(Reduction(reduce).value());
  if (!s) return {};
  UOps inside, outside;
  for (const UOp& c : s->conditions) {
    const bool free = std::ranges::none_of(ranges_of(reduce), [&](const UOp& r) { return depends_on(c, r); });
    (free ? outside : inside).push_back(c);
  }
  if (outside.empty()) return {};
  const Sources ranges = ranges_of(reduce);
  return select(outside, over(reduce, select(inside, s->value), UOps(ranges.begin(), ranges.end())));
}

}  // namespace

const Rules reduce_collapse = [] {
  return RuleList{
      {op(Op::REDUCE).as("reduce"), drop_unused_ranges,
       "a reduce of equal values -> one of them, n times it, or its power"},
      {op(Op::REDUCE).as("reduce"), pick_element, "a sum with one element -> that element"},
      {op(Op::REDUCE).as("reduce"), count_elements,
       "a sum of equal values or 0 -> the value times their number"},
      {op(Op::REDUCE).as("reduce"), pull_out_conditions,
       "a sum behind a condition -> the condition before the sum"},
  };
};

}  // namespace quern
