// Values behind a gate, where(gate, value, invalid): the gate moves outwards, and the value is simplified
// with what the gate says.
#include <algorithm>

#include "quern/ir/node/node_map.h"
#include "quern/ir/node/saturate.h"
#include "quern/ir/symbolic/linear.h"
#include "quern/ir/symbolic/symbolic.h"

namespace quern {
namespace {

// Ops on integers that give Invalid for an Invalid operand.
constexpr OpSet kStrict = {Op::ADD, Op::MUL,      Op::MAX,      Op::MIN,      Op::AND,      Op::OR,  Op::XOR,
                           Op::SUB, Op::FLOORDIV, Op::FLOORMOD, Op::TRUNCDIV, Op::TRUNCMOD, Op::SHL, Op::SHR};

UOp gate_of(const UOp& gate, const UOp& value) {
  return UOp::make(Op::WHERE, value.dtype(), {gate, value, UOp::invalid(value.dtype())});
}

UOp gate_left(const UOp& u, const UOp& gate, const UOp& a, const UOp& b) {
  return gate_of(gate, UOp::make(u.op(), u.dtype(), {a, b}));
}
UOp gate_right(const UOp& u, const UOp& a, const UOp& gate, const UOp& b) {
  return gate_of(gate, UOp::make(u.op(), u.dtype(), {a, b}));
}

UOp compare_left(const UOp& u, const UOp&, const UOp& x, const UOp& y) { return u.with_src(UOps{x, y}); }
UOp compare_right(const UOp& u, const UOp& y, const UOp&, const UOp& x) { return u.with_src(UOps{y, x}); }
UOp cast_ungated(const UOp& u, const UOp&, const UOp& x) { return x.cast(u.dtype()); }

// What the gate tells of an expression: min <= x <= max.
struct Fact {
  UOp x;
  wide min, max;
};

void learn(std::vector<Fact>& facts, const UOp& x, wide min, wide max) {
  for (Fact& f : facts)
    if (same(f.x, x)) {
      f.min = std::max(f.min, min), f.max = std::min(f.max, max);
      return;
    }
  facts.push_back({x, min, max});
}

std::vector<Fact> facts_of(const UOp& condition) {
  std::vector<Fact> facts;
  UOps stack{condition};
  while (!stack.empty() && facts.size() < 16) {
    const UOp u = std::move(stack.back());
    stack.pop_back();
    if (u.op() == Op::AND) {
      stack.insert(stack.end(), u.src().begin(), u.src().end());
      continue;
    }
    const bool is_not = u.op() == Op::XOR && u.src(1).equals(1);
    const UOp& test = is_not ? u.src(0) : u;
    if (test.src().size() != 2 || !test.src(1).is_int_const() || test.src(0).is_const()) continue;
    const UOp& x = test.src(0);
    if (x.dtype().lanes() != 1) continue;  // stand-ins are scalars
    const wide m = test.src(1).int_value();
    if (test.op() == Op::CMPLT && !is_not) learn(facts, x, x.vmin(), std::min(x.vmax(), m - 1));
    if (test.op() == Op::CMPLT && is_not) learn(facts, x, std::max(x.vmin(), m), x.vmax());
    if (test.op() == Op::CMPEQ && !is_not) learn(facts, x, m, m);
  }
  return facts;
}

// A stand-in for an expression with narrower bounds. The name cannot be written in a program.
UOp stand_in(const Fact& f, size_t i, DType dtype) {
  return UOp::variable("\x01" + std::to_string(i), static_cast<int64_t>(f.min), static_cast<int64_t>(f.max),
                       dtype);
}

// What is known of a value is used only where it makes the value cheaper: so it comes to rest.
int cost(const UOp& u) {
  int sum = 0;
  walk(u, [&](const UOp& x) {
    sum += x.is_const() ? 0 : x.src().empty() ? 1 : x.op() == Op::ADD || x.op() == Op::MUL ? 2 : 3;
  });
  return sum;
}

// Sums and products of numbers are not simpler for numbers with narrower bounds.
constexpr OpSet kBoundless = {Op::ADD, Op::MUL, Op::CONST, Op::RANGE, Op::DEFINE_VAR, Op::SPECIAL};

// What is read from memory on the way to an address is read whether or not the gate is open: it keeps the
// gates of its own, which make that legal.
UOp substitute_outside_reads(const UOp& expression, const UOp& from, const UOp& to) {
  constexpr OpSet kReads = {Op::INDEX, Op::LOAD, Op::REDUCE, Op::AFTER};
  if ((expression.ops_below() & kReads).empty() && !kReads.contains(expression.op()))
    return expression.substitute({{from, to}});
  NodeMap<UOp> done;
  walk(
      expression, [&](const UOp& u) { return !kReads.contains(u.op()) && !same(u, from); },
      [&](const UOp& u) {
        UOp now = same(u, from) ? to : u;
        if (!same(u, from) && !kReads.contains(u.op()) && !u.src().empty()) {
          UOps sources;
          for (const UOp& s : u.src()) sources.push_back(*done.find(s));
          now = u.with_src(sources);
        }
        done.emplace(u, now);
      });
  return *done.find(expression);
}

// The expression simplified with the fact, or none if it has no use for it.
UOp use_fact(const Fact& f, size_t number, const UOp& expression) {
  if (f.min > f.max || !fits(dtypes::int64, f.min) || !fits(dtypes::int64, f.max))
    return {};  // never true, or too large
  if (f.min != f.max && (expression.ops_below() - kBoundless).empty()) return {};
  const auto sum = linear_of(f.x);
  if (!sum || !sum->exact() || (sum->terms.size() > 1 && !f.x.dtype().is_index())) return {};
  // x = factor * term + rest, so term = x - rest when the factor is 1 or -1.
  const auto unit =
      std::ranges::find_if(sum->terms, [](const Linear::Term& t) { return t.factor == 1 || t.factor == -1; });
  if (unit == sum->terms.end() || !expression.ops_below().contains(unit->value.op())) return {};
  const UOp known = stand_in(f, number, f.x.dtype());
  const auto rest = add(*sum, term_of(unit->value), -unit->factor);
  const auto known_sum = linear_of(known);
  const auto inside = rest && known_sum ? add(*known_sum, *rest, -1) : std::nullopt;
  const auto replacement = inside ? scaled(*inside, unit->factor) : std::nullopt;
  if (!replacement) return {};
  const UOp narrowed = substitute_outside_reads(expression, unit->value, to_uop(*replacement));
  return same(narrowed, expression) ? UOp() : narrowed.simplify().substitute({{known, f.x}}).simplify();
}

UOp simplify_behind_gate(const UOp& u, const UOp& gate, const UOp& value) {
  const UOp simpler = simplify_under(value, gate);
  return same(simpler, value) ? UOp() : u.with_src(UOps{gate, simpler, u.src(2)});
}

}  // namespace

UOp simplify_under(const UOp& expression, const UOp& condition) {
  const std::vector<Fact> facts = facts_of(condition);
  UOp result = expression;
  for (size_t i = 0, unused = 0; unused < facts.size(); i = (i + 1) % facts.size()) {
    const UOp simpler = use_fact(facts[i], i, result);
    const bool used = simpler && cost(simpler) < cost(result);
    if (used) result = simpler;
    unused = used ? 0 : unused + 1;
  }
  return result;
}

const Rules gates = [] {
  const Pat a = bools("a"), b = bools("b"), x = ints("x"), y = ints("y"), none = invalid();
  return RuleList{
      {op(kStrict, {x, none}).of(types::ints).as("u"),
       [](const UOp& u, const UOp&) { return UOp::invalid(u.dtype()); }, "x op invalid -> invalid"},
      {op(kStrict, {none, x}).of(types::ints).as("u"),
       [](const UOp& u, const UOp&) { return UOp::invalid(u.dtype()); }, "invalid op x -> invalid"},
      {op(kStrict, {where(a, x, none), y}).of(types::ints).as("u"), gate_left,
       "where(a, x, invalid) op y -> where(a, x op y, invalid)"},
      {op(kStrict, {y, where(a, x, none)}).of(types::ints).as("u"), gate_right,
       "y op where(a, x, invalid) -> where(a, y op x, invalid)"},
      {op({Op::CAST, Op::NEG}, {none}).of(types::ints).as("u"),
       [](const UOp& u) { return UOp::invalid(u.dtype()); }, "cast(invalid) -> invalid"},
      {op({Op::CAST, Op::NEG}, {where(a, x, none)}).of(types::ints).as("u"),
       [](const UOp& u, const UOp& gate, const UOp& v) { return gate_of(gate, u.with_src(UOps{v})); },
       "cast(where(a, x, invalid)) -> where(a, cast(x), invalid)"},
      // Only integers are ever invalid: where a comparison would be, any answer will do.
      {op(Op::CAST, {none}).as("u"), [](const UOp& u) { return u.const_like(0); },
       "cast(invalid) to a float or bool -> 0"},
      {op(ops::comparison, {x, none}), false},
      {op(ops::comparison, {none, x}), false},
      {op(ops::comparison, {where(a, x, none), y}).as("u"), compare_left,
       "where(a, x, invalid) < y -> x < y"},
      {op(ops::comparison, {y, where(a, x, none)}).as("u"), compare_right,
       "y < where(a, x, invalid) -> y < x"},
      {op(Op::CAST, {where(a, x, none)}).as("u"), cast_ungated,
       "cast(where(a, x, invalid)) to a float or bool -> cast(x)"},
      {where(a, none, none).as("u"), [](const UOp& u, const UOp&) { return u.src(1); },
       "where(a, invalid, invalid) -> invalid"},
      {where(a, where(b, x, none), none).as("u"),
       [](const UOp&, const UOp& g, const UOp& h, const UOp& v) { return gate_of(g & h, v); },
       "where(a, where(b, x, invalid), invalid) -> where(a & b, x, invalid)"},
      {where(a, where(b, x, none), y).as("u"),
       [](const UOp&, const UOp& g, const UOp& h, const UOp& v, const UOp& w) {
         return gate_of(~g | h, where(g, v, w));
       },
       "where(a, where(b, x, invalid), y) -> where(!a | b, where(a, x, y), invalid)"},
      {where(a, y, where(b, x, none)).as("u"),
       [](const UOp&, const UOp& g, const UOp& w, const UOp& h, const UOp& v) {
         return gate_of(g | h, where(g, w, v));
       },
       "where(a, y, where(b, x, invalid)) -> where(a | b, where(a, y, x), invalid)"},
      {where(a, none, x).as("u"), [](const UOp&, const UOp& g, const UOp& v) { return gate_of(~g, v); },
       "where(a, invalid, x) -> where(!a, x, invalid)"},
      {where(a, x, none).as("u"), simplify_behind_gate, "where(a, x, invalid) -> x simplified where a holds"},
  };
};

}  // namespace quern
